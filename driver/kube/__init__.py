"""The Kubernetes API: a port, its client for a kube-apiserver, and the reflector.

client             the port over HTTP
| reflector_loop   runs a reflector without end, with back-off
connections        connections that are kept for the next request
access             the API server's address and credentials
| codec            JSON as bytes
| decorator        the base of what stands between a program and the API
| reflector        lists and watches one kind of object
lenient            reads JSON that strict decoders refuse
| objects          what every component of Kubernetes reads in the same way
api                the port, and errors by what the caller must do next
"""
