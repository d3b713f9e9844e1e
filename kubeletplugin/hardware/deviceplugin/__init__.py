"""The backend of devices that vendors' own device plugins serve. The program plays the kubelet for them.

host            the kubelet's part: its folder and socket, registrations, lists, and questions to device plugins
backend         the backend
registry        what device plugins have reported
answers         their answers as edits of containers
| refusals      resources that cannot be served
mapping         cards from what they report and what the settings say
| cdispecs      the edits of CDI devices that they name
| kept_answers  answers that are in use, as files
remembered      what is remembered of a resource, and what a list changes in it
hostfiles     the host's files that answers name
| reported      devices as they are reported, and which of them are one card
| metrics       who is connected, what they report, and how they answer, for monitoring
"""
