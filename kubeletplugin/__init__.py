"""Runs on each node: publishes its cards as ResourceSlices and prepares allocated claims for containers.

__main__          ``lode kubeletplugin``: puts the plugin together, with its threads
| release         ``lode release``: gives up a claim that the kubelet has forgotten
server            the gRPC servers: claims and health on one socket, registration on the other
health            the stream of devices' health for the kubelet
| share_usage     what containers use of their shares, as metrics
| card_metrics    what cards measure of themselves, as metrics
prepare           prepares claims: a plan, a checkpoint, actions on the hardware, files for containers
| publish         keeps the node's ResourceSlices as they should be
finding           finds the backends for the node's cards
| inventory       devices and counter sets from cards and the fabric
| offers          the present offers of a card
node_context      the facts and ports of the node that all parts share
nvidia_names      the attributes of a device in the names of NVIDIA's DRA driver
hardware          the cards behind two ports, and the backends
| known_node      the Node from the watch, everything else from the API
| podresources    asks the kubelet which devices it can give to containers
kubelet_devices   devices of the kubelet, as values
| reused          an answer that is used again for a while
| proto           the kubelet's gRPC services, generated
| sockets         the paths of the plugin's two sockets, which sockets are dead, and connections to sockets
"""
