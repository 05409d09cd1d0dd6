"""Private set intersection: which people two parties have in common, and in which order, or only how many.

Messages, in order; each list may come in several parts (c keys at the client, s at the server, m in common):

1. `PsiRequest` client -> server: the client's keys, each hashed to a point of P-256 and blinded with the client's own
   exponent, sorted. The server learns c.
2. `PsiSetup` server -> client: the server's keys, blinded with the server's exponent, sorted. The client learns s.
3. `PsiResponse` server -> client: the client's points, blinded once more by the server. The client takes its own
   exponent away again and compares with the setup.

Pairing (`psi_client`, `psi_server`), for a training or a full alignment. The response comes in the order of the
request, so the client learns which *of its own* keys are common. Then

4. `PsiMatches` client -> server: HMAC-SHA256(session secret, key) of the common keys only, sorted.
5. `PsiSecret` client -> server: the session secret. The server compares with the tags of its own keys and learns which
   of them are common. With fewer common keys than the terms' `least`, message 4 is empty and 5 isn't sent: both end
   with an error, and the server learns no more than that.

Size only (`size_client`, `size_server`), for a feasibility check. The server sorts the response, so the client can't
tell which answer belongs to which key; this is the library's cardinality mode (`reveal_intersection` false). Then

4. `PsiSize` client -> server: m rounded down to a multiple of the smallest group k, or that it is hidden: m < k, or
   fewer than k people of a whole set are not common.

Who learns what. Both learn the other's set size, with a `bucket` only up to its next multiple: dummies, which match
nothing, fill the set up. Pairing: both learn m and who of their own people is common, nothing of any other key; the
client learns it first and may stop before message 4: then the server learns only c. Size only: the client's process
learns m exactly (a rule, not the mathematics, keeps it from telling), the server what message 4 says; nobody learns
who.
Neither order of a file nor position in it is told: lists are sorted by their pseudo-random points, and a receiver
refuses one that isn't strictly ascending, so that no key is in it twice either.

Threat model: honest-but-curious parties under the Diffie-Hellman assumption on P-256. Not defended: a party that fills
its set with guessed keys to test them, or that asks with few keys. Against that stand the published bound on the set
and its commitment in the request, the budget of alignments and the largest set in each party's policy, the smallest
set (`least`), and that a padded set can hide a small one from the last of these. A client can name fewer matches than
there are, or tell another size that could be. A server that answers falsely can mislead a client about who is common,
even into naming the tags of people whom the server doesn't hold; answers that repeat a point are refused.

The structure is openmined-psi's RAW one: exact, no false positives. Anything derived from a key without the session
secret stays out of logs and reports: few or short keys can be guessed from a plain hash.
"""

from protocols.psi.crew import ALONE, Crew, all_cores, crew_of
from protocols.psi.manifest import aligned_roles, psi_manifest, size_manifest
from protocols.psi.messages import PSI_KINDS, PSI_SIZE_KINDS
from protocols.psi.pairing import Alignment, align_in_clear, psi_client, psi_server
from protocols.psi.size import OverlapSize, size_client, size_server
from protocols.psi.terms import LARGEST_BUCKET, UNBOUNDED, PsiTerms

__all__ = [
    "ALONE",
    "LARGEST_BUCKET",
    "PSI_KINDS",
    "PSI_SIZE_KINDS",
    "UNBOUNDED",
    "Alignment",
    "Crew",
    "OverlapSize",
    "PsiTerms",
    "align_in_clear",
    "aligned_roles",
    "all_cores",
    "crew_of",
    "psi_client",
    "psi_manifest",
    "psi_server",
    "size_client",
    "size_manifest",
    "size_server",
]
