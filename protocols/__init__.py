"""The rules of a joint computation, without sockets, frameworks or files of data.

Import the module that you need; the package itself imports nothing, so that `import protocols` costs nothing.

errors      one family of exceptions, each with a stable code
wire        frozen messages <-> bytes
framing     the checked format of bytes under messages, checkpoints and models
program     protocol programs as generators of effects; `simulate` runs them in one thread
seeds       private and public randomness
keys        Ed25519 signatures, key files, link certificates, fingerprints
request     the frozen, canonical computation request
approval    signed decisions of people and countersigned approvals of parties
gate        the release manifest, enforced
audit       the hash-chained log of one party
disclosure  what may be said about small groups
masking     sums of which nobody sees the terms
psi         private set intersection, spread over the cores
chunks      how a long list is cut into messages
"""
