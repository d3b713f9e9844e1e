"""What selectors may cost, so that no claim or device class keeps the one deciding thread from the others.

Work is counted in **steps**. A step is at most two microseconds of one core of 2024, whatever the expression does:
`Budget.effort` weighs loops, text, comparisons and regular expressions alike. Ordinary work takes half of that. Counts
and not clocks decide, so the same claims and devices always get the same answer.

kube-apiserver admits far more than this: 108,000 rounds of a loop in one selector, 32 selectors in a request, 32
requests in a claim. Selectors that people write take 10 to 400 steps on a device.
"""

from typing import Final

DEVICE_STEPS: Final = 50_000
"""Steps of one selector on one device, for loops, for text and for comparisons each. A loop over 1,000 names takes
about 20,000."""
CLAIM_STEPS: Final = 400_000
"""Steps of all selectors of one claim and of the device classes that it names, on all devices: less than a second."""
POD_STEPS: Final = 600_000
"""Steps of the selectors of all claims of a pod."""
STEPS_OF_EACH_DEVICE: Final = 200
"""What a claim, and a pod, may take besides for each device of the cluster: five selectors that tell every device from
every other one. Such work is spread over turns."""
TURN_STEPS: Final = 200_000
"""Steps that one turn of the deciding thread takes before others get theirs. The last piece of work may exceed it: one
selector on one device, or one expression that is compiled."""
CHARACTER_STEPS: Final = 8
"""Steps of reading one character of an expression: parsing, checking and compiling it."""
PREPARATION_STEPS: Final = 50_000
"""Steps of what is computed from the constants of one expression when it is compiled, for each as of `DEVICE_STEPS`."""
PLAIN_STEPS: Final = 12
"""Steps of one evaluation without loops: most of it makes the device a value of CEL."""
PLAIN_COST: Final = 1_000
"""The highest cost (of Kubernetes' count) of an evaluation that is not counted while it runs."""
FILTER_STEPS: Final = 200
"""Steps that each request, and each of its alternatives, counts as besides its selectors."""
