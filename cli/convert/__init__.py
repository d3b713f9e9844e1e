"""``lode convert``: manifests for other systems as manifests with claims. No cluster is asked.

run          reads files, converts, prints or writes
converting   the text of a file with claims, or everything that keeps it from that; where pods are in an object
adopting     what becomes of one pod or pod template, and for which system it was written
| templates  claim templates beside the workload that uses them
| edits      the text of a document with another value, and of a file with other documents
nodes        documents with the place of every value in the text
"""
