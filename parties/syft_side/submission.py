"""A code request as syft holds it, as plain values, and how it differs from the one that the shim would be.

syft lets an analyst choose more than its review screen shows: which status an approval changes, the name and the
arguments of the function that is called, the policies and the server they are made for, and more. So every field is
read into a `Submission` (`parties.datasite` does that), and compared with the `expected` one. No syft here.
"""

import hashlib
from dataclasses import dataclass, fields

from parties.shim import ARGUMENTS, EXECUTION_LIMIT, function_name, source

CONSTANT = "constant"
FREE = "free"
APPROVAL = "UserCodeStatusChange"
INPUT_POLICY = "MixedInputPolicy"
OUTPUT_POLICY = "OutputPolicyExecuteCount"
ANALYST_ROLE = "DATA_SCIENTIST"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a policy demands of one argument: CONSTANT with a value, or FREE; `type` is the value's type."""

    argument: str
    kind: str
    type: str
    value: str
    given: bool
    """Whether the caller has to give the argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """Both policies of a code; types are named only when they are syft's own classes of that name, else "other"."""

    servers: tuple[str, ...]
    """Identity of each server that the input policy names: name, id and verify key."""
    input_type: str
    rules: tuple[Rule, ...]
    output_type: str
    limit: int
    """-1 when the policy has none or something else beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One request with its change, its code (as the server holds it), the status it approves and its author's account.

    Ids and keys are hex texts. `policies` are those submitted, `policies_in_use` those that syft made of them (the same
    ones until it has). `executed` is the text that syft runs, which isn't the text that it shows.
    """

    changes: tuple[str, ...]
    approves: str
    nested_approval: bool
    same_type: bool
    linked_types: tuple[str, str]
    servers: tuple[str, ...]
    """Server ids that request, linked code and linked status name."""
    approved_status: str
    code_status: str
    status_owner: str
    code: str
    requester: str
    author: str
    account: tuple[str, str, bool]
    """Role, e-mail address and right to run on mocks of the account with the requester's key."""
    email: str
    text: str
    name: str
    unique_name: str
    code_hash: str
    executed: str
    arguments: tuple[str, ...]
    signature: str
    nested: bool
    uses_datasite: bool
    worker_pool: str
    side: str
    policies: Policies
    policies_in_use: Policies


def expected(
    found: Submission, *, signed: str, digest: str, server: str, identity: str, executed: str
) -> Submission:
    """What the request would look like if it were the shim for `signed`, for this very author and code on this server.

    `server` is the id and `identity` the identity text of the server that holds it; `executed` is syft's own
    translation of the shim's text. Taken over from `found` are only the ids that syft chose and the author's address.
    """
    text = source(digest)
    policies = Policies(
        servers=(identity,),
        input_type=INPUT_POLICY,
        rules=(
            Rule(argument=ARGUMENTS[0], kind=CONSTANT, type="str", value=signed, given=False),
            *(Rule(argument=name, kind=FREE, type="str", value="", given=True) for name in ARGUMENTS[1:]),
        ),
        output_type=OUTPUT_POLICY,
        limit=EXECUTION_LIMIT,
    )
    return Submission(
        changes=(APPROVAL,),
        approves="approved",
        nested_approval=False,
        same_type=True,
        linked_types=("UserCode", "UserCodeStatusCollection"),
        servers=(server, server, server),
        approved_status=found.code_status,
        code_status=found.code_status,
        status_owner=found.code,
        code=found.code,
        requester=found.requester,
        author=found.requester,
        account=(ANALYST_ROLE, found.email, False),
        email=found.email,
        text=text,
        name=function_name(digest),
        unique_name=unique_name(digest, found.requester),
        code_hash=code_hash(digest, found.requester),
        executed=executed,
        arguments=ARGUMENTS,
        signature=f"({', '.join(ARGUMENTS)})",
        nested=False,
        uses_datasite=False,
        worker_pool="default-pool",
        side="high",
        policies=policies,
        policies_in_use=policies,
    )


def code_hash(digest: str, author: str) -> str:
    """syft's hash of the shim's code when this author (verify key, hex) submits it."""
    return hashlib.sha256(f"{source(digest)}{author}".encode()).hexdigest()


def unique_name(digest: str, author: str) -> str:
    """syft's name of the wrapper function that it executes."""
    return f"user_func_{function_name(digest)}_{author}_{code_hash(digest, author)}"


def differences(found: Submission, wanted: Submission) -> tuple[str, ...]:
    """Names of the fields that differ, in words a reviewer reads; empty when the two are equal."""
    names = [
        field.name
        for field in fields(Submission)
        if getattr(found, field.name) != getattr(wanted, field.name)
    ]
    return tuple(f"{name.replace('_', ' ')} differs from the shim's" for name in names)
