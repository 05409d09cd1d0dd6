"""Rules about who has to agree: countersignatures, people, N of M, never for oneself, limits, and the end of it all."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

from parties.control.runs import RunState
from parties.control.validate import Grounds, check_start
from parties.home.checklist import Question
from parties.home.people import Person, add_person, read_people
from parties.home.policy import Policy, missing, missing_jointly, policy_text
from parties.home.private_files import write_private
from protocols import keys
from protocols.approval import Decision, PartyApproval, Role, countersign, decide, decision_text, verify_all
from protocols.decision import parse_decision
from protocols.errors import ApprovalError, ExpiredError, NotApprovedError
from protocols.records import signed_form
from protocols.request import digest
from tests.attempts.papers import altered, forged, other_partys
from tests.mutations.rule import Cut, Place, Rule, Stopped
from tests.parties.control.test_desk import Desk
from tests.protocols import samples

APPROVAL = "protocols.approval."
CHECK = f"{APPROVAL}_check_decisions"
PARTY = f"{APPROVAL}verify_party_approval"
DESK = "parties.control.decision_checks."
POLICY = "parties.home.policy."
SELF = "decision.key == request.analyst.key"
LATE = timedelta(days=60)
SIGNATURE = Cut(
    PARTY,
    'keys.verify(approval.signing_key, signed_form("approval", approval, "signature"), approval.signature)',
    "pass",
)
ROSTER_KEY = Cut(PARTY, "approval.signing_key != _roster_entry(request, approval.party).signing_key")
OF_PARTY = Cut(CHECK, "decision.party != party")
OF_REQUEST = Cut(CHECK, "decision.digest != wanted")
UNALTERED = Cut(CHECK, "verify_decision(decision)", "pass")
NOT_HIMSELF = Cut(CHECK, SELF)
PERSON = Cut(f"{DESK}check_person", "(person.key, person.role, person.organisation) != (", "() > (")
OUR_OWN = Cut("parties.control.validate._check_own_people", "if lacking:", "if False:")


def peers(change: Callable[[PartyApproval, PartyApproval], PartyApproval], place: Place) -> None:
    """The retailer's countersigned approval is not the one that it gave."""
    people = samples.People()
    request = samples.sample_request(people)
    bank, retailer = samples.approvals(request, people)
    verify_all(request, (bank, change(bank, retailer)), samples.NOW)


def of_another_request(place: Place) -> None:
    people = samples.People()
    request, other = samples.sample_request(people), samples.sample_request(people, nonce="d" * 32)
    _, retailer = samples.approvals(other, people)
    verify_all(request, (samples.approvals(request, people)[0], retailer), samples.NOW)


def of_one_party_alone(place: Place) -> None:
    people = samples.People()
    request = samples.sample_request(people)
    verify_all(request, samples.approvals(request, people)[:1], samples.NOW)


def under_a_key_of_its_own(ours: PartyApproval, theirs: PartyApproval) -> PartyApproval:
    """Whoever altered it signed it too, with another key, and says so in it."""
    key = keys.generate_key()
    changed = replace(theirs, signing_key=keys.public_hex(key))
    return replace(changed, signature=keys.sign(key, signed_form("approval", changed, "signature")))


def after_its_end(place: Place) -> None:
    people = samples.People()
    request = samples.sample_request(people)
    verify_all(request, samples.approvals(request, people), samples.NOW + LATE)


def countersigned_after_its_end(place: Place) -> None:
    people = samples.People()
    request = samples.sample_request(people)
    given = samples.decision(request, "bank", people.bank_owner)
    countersign(request, "bank", [given], samples.POLICY, samples.NOW + LATE, people.bank)


def a_decision_of(place: Place, **changes: object) -> None:
    """A party that countersigns whatever it is handed hands over a decision that isn't one of its people's."""
    people = samples.People()
    request = samples.sample_request(people)
    given = replace(samples.decision(request, "bank", people.bank_owner), **changes)  # type: ignore[arg-type]
    countersign(request, "bank", [given], samples.POLICY, samples.NOW, people.bank)


def the_analysts_own(place: Place) -> None:
    people = samples.People()
    request = samples.sample_request(people)
    given = samples.decision(request, "bank", people.analyst)
    countersign(request, "bank", [given], samples.POLICY, samples.NOW, people.bank)


def against_a_denial(place: Place) -> None:
    people = samples.People()
    request = samples.sample_request(people)
    yes = samples.decision(request, "bank", people.bank_owner)
    no = samples.decision(
        request, "bank", keys.generate_key(), person="rev", decision=Decision.DENY, reason="too much"
    )
    countersign(request, "bank", [yes, no], samples.POLICY, samples.NOW, people.bank)


def as_two_people(place: Place) -> None:
    """One person approves with two keys, to be counted as two."""
    people = samples.People()
    request = samples.sample_request(people)
    given = [samples.decision(request, "bank", keys.generate_key()) for _ in range(2)]
    countersign(request, "bank", given, samples.POLICY, samples.NOW, people.bank)


def herself_at_the_desk(place: Place) -> None:
    """The analyst holds a reviewer's role at the bank too, and approves her own request there."""
    desk = Desk(place.offices())
    write_private(desk.offices.bank.folder / "policy.toml", policy_text(Policy(reviewers=1)))
    key, folder = desk.offices.ana.signing_key(), desk.offices.bank.folder
    add_person(folder, Person(name="rev", role="reviewer", organisation="Lab", key=keys.public_hex(key)))
    keys.save_key(folder / "keys" / "people" / "rev.pem", key, b"correct horse")
    request = desk.submitted()
    for person in ("owner", "rev"):
        desk.decisions.take(
            desk.offices.decision(desk.offices.bank, request, Decision.APPROVE, person=person)
        )
    if desk.ledger.find(digest(request)).state is not RunState.APPROVED:
        raise Stopped("it stayed pending")


def somebody_elses_name(place: Place) -> None:
    """A decision in the owner's name under another key."""
    desk = Desk(place.offices())
    request = desk.submitted()
    other = keys.generate_key()
    made = decide(
        digest=digest(request),
        party="bank",
        person="owner",
        role=Role.OWNER,
        organisation="Example Bank",
        decision=Decision.APPROVE,
        reason="because",
        key=other,
        now=desk.offices.clock(),
    )
    desk.decisions.take(decision_text(made))


def an_old_approval_after_a_denial(place: Place) -> None:
    desk = Desk(place.offices())
    request = desk.submitted()
    old = desk.decision(request, Decision.APPROVE)
    desk.offices.clock.ahead += timedelta(minutes=1)
    desk.decide(request, Decision.DENY)
    desk.decisions.take(old)


def without_a_reason(place: Place) -> None:
    desk = Desk(place.offices())
    request = desk.submitted()
    desk.decisions.take(desk.offices.decision(desk.offices.bank, request, Decision.APPROVE, reason=""))


def without_an_answer(place: Place) -> None:
    """An approval that says why, and nothing to the policy's one question."""
    desk = Desk(place.offices())
    policy = Policy(checklist=(Question(item="columns", text="Is every column needed?"),))
    write_private(desk.offices.bank.folder / "policy.toml", policy_text(policy))
    desk.decide(desk.submitted(), Decision.APPROVE)


def laxer_than_the_policy(place: Place, **changes: object) -> None:
    desk = Desk(place.offices())
    desk.decide(desk.submitted(**changes), Decision.APPROVE)


def of_fewer_people(place: Place, **wanted: int) -> None:
    """The owner alone approves where the policy wants more of our people."""
    desk = Desk(place.offices())
    write_private(desk.offices.bank.folder / "policy.toml", policy_text(Policy(**wanted)))  # type: ignore[arg-type]
    request = desk.submitted()
    if desk.decide(request, Decision.APPROVE).state is not RunState.APPROVED:
        raise Stopped(f"it stayed pending: {desk.reception.overview.missing(digest(request))}")


def of_a_removed_person(place: Place) -> None:
    """Someone who has approved and then left still counts."""
    offices = place.offices()
    request = offices.request()
    given = parse_decision(offices.decision(offices.bank, request, Decision.APPROVE))
    others = tuple(each for each in read_people(offices.bank.folder) if each.name != given.person)
    lacking = missing(Policy(), request, others, (given,))
    if lacking:
        raise Stopped("; ".join(lacking))


def without_our_own_people(place: Place) -> None:
    """A start for which the parties have countersigned, but our people's own decisions are gone."""
    offices = place.offices()
    request = offices.request()
    given = parse_decision(offices.decision(offices.bank, request, Decision.APPROVE))
    own = countersign(request, "bank", [given], "0" * 16, offices.clock(), offices.bank.signing_key())
    grounds = Grounds(
        book=offices.bank.address_book(),
        policy=Policy(),
        people=read_people(offices.bank.folder),
        decisions=(),
        current_block=lambda name: (1, request.blocks[0].commitment),
        code=request.code_digest,
        bind="",
        now=offices.clock(),
        check_seats=lambda request, organisations: None,
    )
    check_start(request, (own, offices.shop_signed(request)), grounds)


def of_too_few_together(place: Place, **wanted: int) -> None:
    """Over all parties one reviewer of one organisation approves."""
    people = samples.People()
    request = samples.sample_request(people)
    rev = samples.decision(
        request, "bank", keys.generate_key(), person="rev", role=Role.REVIEWER, organisation="Board"
    )
    own = samples.decision(request, "bank", people.bank_owner)
    given = countersign(request, "bank", [own, rev], samples.POLICY, samples.NOW, people.bank)
    lacking = missing_jointly(Policy(**wanted), request, (given,))  # type: ignore[arg-type]
    if lacking:
        raise Stopped("; ".join(lacking))


RULES = (
    Rule(
        name="a countersignature covers every byte of what was countersigned",
        off=(SIGNATURE,),
        attempt=partial(peers, altered),
        stopped=ApprovalError,
        saying="altered after it was signed",
    ),
    Rule(
        name="a forged countersignature is none",
        off=(SIGNATURE,),
        attempt=partial(peers, forged),
        stopped=ApprovalError,
        saying="altered after it was signed",
    ),
    Rule(
        name="a countersignature is by the roster's key",
        off=(ROSTER_KEY,),
        attempt=partial(peers, under_a_key_of_its_own),
        stopped=ApprovalError,
        saying="another key than the roster's",
    ),
    Rule(
        name="one party's approval isn't another's",
        off=(ROSTER_KEY, SIGNATURE, OF_PARTY),
        attempt=partial(peers, other_partys),
        stopped=ApprovalError,
        saying="another key than the roster's",
    ),
    Rule(
        name="an approval is for one digest",
        off=(Cut(PARTY, "approval.digest != wanted"), OF_REQUEST),
        attempt=of_another_request,
        stopped=ApprovalError,
        saying="is for request",
    ),
    Rule(
        name="every party of the roster has approved",
        off=(Cut(f"{APPROVAL}verify_all", "if missing:", "if False:"),),
        attempt=of_one_party_alone,
        stopped=NotApprovedError,
        saying="approval missing from retailer",
    ),
    Rule(
        name="approvals end with the request's date",
        off=(Cut(f"{APPROVAL}check_expiry", 'now >= parse_utc(request.expires, "expires", RequestError)'),),
        attempt=after_its_end,
        stopped=ExpiredError,
        saying="expired",
    ),
    Rule(
        name="nobody countersigns after the request's date",
        off=(Cut(f"{APPROVAL}countersign", "check_expiry(request, now)", "pass"),),
        attempt=countersigned_after_its_end,
        stopped=ExpiredError,
        saying="expired",
    ),
    Rule(
        name="a person's decision is unaltered",
        off=(UNALTERED,),
        attempt=partial(a_decision_of, reason="something else"),
        stopped=ApprovalError,
        saying="was altered",
    ),
    Rule(
        name="a person's decision is for one digest",
        off=(OF_REQUEST, UNALTERED),
        attempt=partial(a_decision_of, digest="e" * 64),
        stopped=ApprovalError,
        saying="is for request",
    ),
    Rule(
        name="a person decides for one party",
        off=(OF_PARTY, UNALTERED),
        attempt=partial(a_decision_of, party="retailer"),
        stopped=ApprovalError,
        saying="was made for retailer",
    ),
    Rule(
        name="self-approval: no party countersigns what the analyst decided",
        off=(NOT_HIMSELF,),
        attempt=the_analysts_own,
        stopped=ApprovalError,
        saying="by the analyst of the request",
    ),
    Rule(
        name="self-approval: an analyst with a role decides nothing at the desk",
        off=(
            Cut(f"{DESK}check_person", SELF),
            NOT_HIMSELF,
            Cut(f"{POLICY}counting", f" or {SELF}", ""),
        ),
        attempt=herself_at_the_desk,
        stopped=ApprovalError,
        saying="is the analyst of the request",
    ),
    Rule(
        name="a denial stands against every approval",
        off=(Cut(CHECK, "decision.decision is not Decision.APPROVE"),),
        attempt=against_a_denial,
        stopped=NotApprovedError,
        saying="rev denied the request",
    ),
    Rule(
        name="one person is one key",
        off=(
            Cut(
                CHECK,
                "len(people) > min(len({d.person for d in decisions}), len({d.key for d in decisions}))",
            ),
        ),
        attempt=as_two_people,
        stopped=ApprovalError,
        saying="one person must have one key",
    ),
    Rule(
        name="a person is known by the key in people.json",
        off=(PERSON,),
        attempt=somebody_elses_name,
        stopped=ApprovalError,
        saying="differ from people.json",
    ),
    Rule(
        name="an old approval can't come again after a denial",
        off=(Cut(f"{DESK}check_date", "before.key == decision.key and not late"),),
        attempt=an_old_approval_after_a_denial,
        stopped=ApprovalError,
        saying="dated before your last decision",
    ),
    Rule(
        name="an approval has a reason",
        off=(Cut(f"{DESK}check_reason", "decision.decision is Decision.APPROVE and not decision.reason"),),
        attempt=without_a_reason,
        stopped=ApprovalError,
        saying="needs a reason",
    ),
    Rule(
        name="an approval answers the policy's checklist",
        off=(Cut("parties.home.checklist.check_answered", "words != [YES]"),),
        attempt=without_an_answer,
        stopped=ApprovalError,
        saying="checklist item 'columns' has no answer",
    ),
    Rule(
        name="minimum group: a request isn't laxer than the policy",
        off=(Cut(f"{POLICY}violations", "asked < wanted"),),
        attempt=partial(laxer_than_the_policy, minimum_group=5),
        stopped=ApprovalError,
        saying="minimum_group is 5",
    ),
    Rule(
        name="minimum overlap: a request isn't laxer than the policy",
        off=(Cut(f"{POLICY}violations", "asked < wanted"),),
        attempt=partial(laxer_than_the_policy, minimum_overlap=5),
        stopped=ApprovalError,
        saying="minimum_overlap is 5",
    ),
    Rule(
        name="a request has no more runs than the policy allows",
        off=(Cut(f"{POLICY}violations", "request.runs > policy.max_runs"),),
        attempt=partial(laxer_than_the_policy, runs=11),
        stopped=ApprovalError,
        saying="runs is 11",
    ),
    Rule(
        name="a request lasts no longer than the policy allows",
        off=(
            Cut(
                f"{POLICY}violations",
                'parse_utc(request.expires, "expires", RequestError) > now + timedelta(days=policy.max_days)',
            ),
        ),
        attempt=partial(laxer_than_the_policy, expires="2100-01-01T00:00:00Z"),
        stopped=ApprovalError,
        saying="our policy allows at most 90 days",
    ),
    Rule(
        name="N of M: so many of our owners",
        off=(Cut(f"{POLICY}missing", "have < wanted"),),
        attempt=partial(of_fewer_people, owners=2),
        stopped=Stopped,
        saying="1 more owner must approve",
    ),
    Rule(
        name="N of M: so many of our reviewers",
        off=(Cut(f"{POLICY}missing", "have < wanted"),),
        attempt=partial(of_fewer_people, reviewers=1),
        stopped=Stopped,
        saying="1 more reviewer must approve",
    ),
    Rule(
        name="N of M: who left our people counts no more",
        off=(Cut(f"{POLICY}missing", "have < wanted"),),
        attempt=of_a_removed_person,
        stopped=Stopped,
        saying="1 more owner must approve",
    ),
    Rule(
        name="N of M: our own people's decisions are there at every start",
        off=(OUR_OWN,),
        attempt=without_our_own_people,
        stopped=NotApprovedError,
        saying="1 more owner must approve",
    ),
    Rule(
        name="N of M: so many reviewers over all parties",
        off=(Cut(f"{POLICY}missing_jointly", "len(reviewers) < policy.joint_reviewers"),),
        attempt=partial(of_too_few_together, joint_reviewers=2),
        stopped=Stopped,
        saying="1 more reviewers over all parties",
    ),
    Rule(
        name="N of M: of so many organisations",
        off=(Cut(f"{POLICY}missing_jointly", "organisations < policy.joint_organisations"),),
        attempt=partial(of_too_few_together, joint_organisations=2),
        stopped=Stopped,
        saying="reviewers from 2 organisations",
    ),
)
