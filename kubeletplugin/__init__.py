"""Runs on each node: publishes its cards as ResourceSlices and prepares allocated claims for containers.

__main__          ``lode kubeletplugin``: puts the plugin together, with its threads
| release         ``lode release``: gives up a claim that the kubelet has forgotten
server            the gRPC servers: claims and health on one socket, registration on the other
health            the stream of devices' health for the kubelet
| registration    registration with the kubelet
prepare           prepares claims: a plan, a checkpoint, actions on the hardware, files for containers
| publish         keeps the node's ResourceSlices as they should be
finding           which backends serve the node's cards
| inventory       devices and counter sets from cards and the fabric
| offers          what a card can be offered as now
boot_memory       keeps lost and failed cards over restarts of the program
node_context      the node as all parts of the plugin need it: name, settings, ports
hardware          the cards behind two ports, and the backends
| known_node      the API as preparing sees it: the watched Node need not be read again
| podresources    asks the kubelet which devices it can give to containers
| sockets         the paths of the plugin's two sockets
kubelet_devices   what the kubelet can give and has given, as values
| proto           the kubelet's gRPC services, generated
"""
