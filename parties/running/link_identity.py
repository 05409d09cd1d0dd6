"""Who a worker is to parties without a link to it: it signs with its link's key, whose certificate the roster pins."""

from pathlib import Path

from parties.running.runspec import RunSpec
from protocols.keys import certificate_key, load_key
from protocols.masking import Identity, identity_of
from protocols.request import ComputationRequest
from protocols.request import digest as request_digest


def link_identity(spec: RunSpec, request: ComputationRequest) -> Identity:
    """The identity of the spec's role in a run of this request. KeyFileError for a link key that can't be read.

    The supervisor compared the roster's certificates with the address book, so whoever relays a message that is signed
    so can't put its own in its place. A worker has no other key that others know: the signing key is its supervisor's.
    """
    public = {entry.role: certificate_key(entry.link_certificate) for entry in request.parties}
    key = load_key(Path(spec.link_key), None)
    return identity_of(spec.role, request_digest(request), public, key)
