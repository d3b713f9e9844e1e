"""Shared by both programs: the model of devices and claims, the Kubernetes API, settings, logs and metrics.

device_facts       what ``status.devices`` of a claim says about its devices
| kube             the Kubernetes API: the port, its client, the reflector
| adoption         requests of other systems, and words of people, as claims
cel                CEL expressions that select devices; stands alone, with a README of its own
| label_selectors  label selectors of meta/v1
node_selectors     matches NodeSelectors of core/v1 with nodes
| metric_labels    series of metrics as Prometheus reads them
| observe          logs, metrics and health checks
| parameters       opaque parameters of claims and classes
| allocated_texts  the texts of admission policies for several allocated drivers
| settings_file    the settings file of both programs
| wire             the API's JSON to and from the model
settings           the settings of both programs, as values
nvidia_dra         claims for NVIDIA's DRA driver in our terms
| deviceplugins    settings of devices that vendors' own device plugins serve
model              claims, slices and devices as values
| names            names derived from the driver's name
quantity           Kubernetes quantities, exact
files              small files, written whole or not at all
backoff            exponential back-off
| bounded          a dict of bounded size
| clock            the port to time
| errors           errors by who must act
| disk             the port to the calls of a file system, and those of this machine
| cache_key        cache keys that no field can be forgotten in
| kinds            the backends, offers and kinds of devices
| section          what all sections of the settings have in common
| semver           semantic versions
| threads          threads whose failure is reported
| yaml_values      YAML that others wrote, bounded: as kubectl reads it, or as texts
limits             limits of Kubernetes' API, and the syntax of names
| bare             scalars of YAML as they are written
"""
