"""The pages that show: requests, foreign code, runs, blocks, models, the policy; and what decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Form, Request
from fastapi.responses import RedirectResponse, Response

from parties.console.entrance import ORIGIN, Entrance
from parties.console.sessions import Session
from parties.control.asking import ask
from parties.home.cards import card_fingerprint
from parties.home.checklist import Answer, Question, with_answers
from parties.home.documents import check_digest
from parties.home.people import read_people
from parties.home.policy import policy_text, read_policy
from parties.home.state import State
from parties.roles.policy_check import warnings_of
from parties.roles.reviewing import decide_as, foreign_code, page
from protocols.approval import Decision
from protocols.errors import ApprovalError, ConfigError, DatasiteError

WAIT = 3.0
"""Seconds that a page waits for syft to follow a decision."""
LONGEST_REASON = 500
MOCK_ROWS = 8
ENDED = ("DONE", "FAILED", "CANCELLED", "REVOKED")


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """The pages for people who are logged in; the answer to everybody else is the login page."""

    entrance: Entrance

    def requests(self, request: Request) -> Response:
        """All requests, what waits for a decision first, what was refused when it came, and foreign code."""
        session = self.entrance.session(request)
        document = ask(self._state.folder, "requests")
        rows = rows_of(document["requests"])[::-1]
        return self._page(
            session,
            "requests.html",
            "/requests",
            pending=[row for row in rows if row["state"] == "PENDING"],
            others=[row for row in rows if row["state"] != "PENDING"],
            refused=rows_of(document["refused"])[::-1],
            foreign=rows_of(document["foreign"])[::-1],
        )

    def request(self, request: Request, digest: str) -> Response:
        """One request in full, with the forms to decide on it; opening it is logged."""
        session = self.entrance.session(request)
        found = page(self._state, check_digest(digest), person=session.signer.person.name, origin=ORIGIN)
        return self._page(
            session,
            "request.html",
            "/requests",
            digest=digest,
            document=found.document,
            sections=found.sections,
            checklist=self._checklist(),
        )

    def decide(
        self,
        request: Request,
        digest: str,
        decision: Decision,
        reason: Annotated[str, Form()] = "",
        item: Annotated[list[str], Form()] = [],  # noqa: B006  # the framework copies it
        answer: Annotated[list[str], Form()] = [],  # noqa: B006
        why: Annotated[list[str], Form()] = [],  # noqa: B006
        csrf: Annotated[str, Form()] = "",
    ) -> Response:
        """Signs a decision with the session's key and hands it in, as the commands do.

        A reason is required, and of an approval an answer to each `item` of the checklist, with its `why`.
        """
        session = self.entrance.own_form(request, csrf)
        text = " ".join(reason.split())
        if not text or len(text) > LONGEST_REASON:
            raise ApprovalError(
                f"a decision needs a reason of 1 to {LONGEST_REASON} characters; nothing was decided",
                remedy="go back and write why",
            )
        if decision is Decision.APPROVE:
            text = with_answers(text, _answers(item, answer, why))
        try:
            session.notice = decide_as(
                self._state,
                session.signer,
                check_digest(digest),
                decision=decision,
                reason=text,
                wait=WAIT,
                origin=ORIGIN,
            )
        except DatasiteError as error:  # the decision stands; only syft doesn't know it yet
            session.notice = str(error)
        return RedirectResponse(f"/requests/{digest}", status_code=303)

    def foreign(self, request: Request, number: int) -> Response:
        """One submission of foreign code with what stands out in it; there is nothing to approve."""
        session = self.entrance.session(request)
        document, _ = foreign_code(self._state, number, person=session.signer.person.name, origin=ORIGIN)
        return self._page(
            session, "foreign.html", "/requests", found=document, lines=str(document["code"]).split("\n")
        )

    def runs(self, request: Request) -> Response:
        """How runs stand; the page renews itself while it is asked to, which doesn't keep the session open."""
        live = "live" in request.query_params
        session = self.entrance.session(request, touch=not live)
        rows = rows_of(ask(self._state.folder, "requests")["requests"])[::-1]
        started = [row for row in rows if row["used"] or row["state"] == "RUNNING"]
        views = [
            {**row, **ask(self._state.folder, "status", digest=row["digest"])}
            for row in started[:20]
            if not row.get("damaged")
        ]
        return self._page(
            session,
            "runs.html",
            "/runs",
            live=live,
            going=[view for view in views if view["state"] not in ENDED],
            ended=[view for view in views if view["state"] in ENDED],
        )

    def blocks(self, request: Request) -> Response:
        """The blocks with their published facts."""
        from parties.blocks.store import Store

        session = self.entrance.session(request)
        return self._page(session, "blocks.html", "/blocks", blocks=Store(self._state.blocks).list())

    def block(self, request: Request, name: str) -> Response:
        """One block: what of it is published, and some rows of its mock twin."""
        from parties.blocks.store import Store
        from parties.roles.owner import column_values

        session = self.entrance.session(request)
        store = Store(self._state.blocks)
        mock = store.mock(name).head(MOCK_ROWS)
        return self._page(
            session,
            "block.html",
            "/blocks",
            block=store.describe(name),
            names=list(mock.columns),
            rows=mock.to_numpy().tolist(),
            values=column_values,
        )

    def models(self, request: Request) -> Response:
        """The models with the data they learnt from."""
        from parties.roles.models import list_models

        session = self.entrance.session(request)
        document, _ = list_models(self._state)
        return self._page(session, "models.html", "/models", models=rows_of(document["models"])[::-1])

    def model(self, request: Request, digest: str) -> Response:
        """One model with all that it leads to."""
        from parties.roles.models import model_facts, show_model

        session = self.entrance.session(request)
        document, _ = show_model(self._state, check_digest(digest))
        return self._page(session, "model.html", "/models", digest=digest, facts=model_facts(document))

    def policy(self, request: Request) -> Response:
        """The policy in force, the people, and the address book."""
        session = self.entrance.session(request)
        policy = read_policy(self._state.folder)
        book = [self._state.card(), *self._state.address_book().cards()]
        return self._page(
            session,
            "policy.html",
            "/policy",
            version=policy.version,
            policy=policy_text(policy),
            warnings=warnings_of(self._state, policy),
            people=read_people(self._state.folder),
            cards=[(card, card_fingerprint(card)) for card in book],
        )

    def _checklist(self) -> tuple[Question, ...]:
        """What an approval has to answer; nothing can be approved without a readable policy, so nothing then."""
        try:
            return read_policy(self._state.folder).checklist
        except ConfigError:
            return ()

    @property
    def _state(self) -> State:
        return self.entrance.state

    def _page(self, session: Session, template: str, here: str, **values: object) -> Response:
        return self.entrance.pages.html(template, session, self.entrance.now(), {"here": here, **values})


def _answers(items: Sequence[str], words: Sequence[str], reasons: Sequence[str]) -> list[Answer]:
    if not len(items) == len(words) == len(reasons):
        raise ApprovalError("the form's checklist is incomplete; nothing was decided")
    return [
        Answer(item=item, word=word, reason=" ".join(reason.split()))
        for item, word, reason in zip(items, words, reasons, strict=True)
    ]


def rows_of(value: object) -> list[Mapping[str, object]]:
    """The rows of a list in a document; what isn't a row is passed over."""
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []
