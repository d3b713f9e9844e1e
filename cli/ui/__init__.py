"""``lode ui``, ``kubectl lode ui``: a page of the fleet on this machine, with the rights of the user. Reads only.

run          follows the cluster and serves the page over HTTP until it is interrupted
answers      the answer to each request, and who gets one
access       who is let in, and what they may see, as the API server says it
| publishing  the document as it is sent
| following  what is kept of the fleet, change by change, as far as the rights of the user go
document     the document: everything that the page shows, as JSON in columns
| questions  why something waits, and what would become of a manifest
contents     what the document is made of, as values
"""
