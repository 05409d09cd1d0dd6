"""What the supervisor tells a worker of its run: paths of this party's state, papers, role, model."""

from dataclasses import dataclass

from parties.control.models import StoredModel
from parties.control.run_state import Reservation
from parties.home.documents import Documents
from parties.home.state import State
from parties.running.runspec import RunSpec
from protocols import seeds
from protocols.approval import PartyApproval
from protocols.approval import to_text as approvals_text


@dataclass(frozen=True, slots=True)
class RunSpecs:
    """Makes the `run.json` of a party's runs; `bind` and `injected_seed` are those of the supervisor."""

    state: State
    bind: str
    injected_seed: int | None

    def made(
        self,
        digest: str,
        reservation: Reservation,
        approvals: tuple[PartyApproval, ...],
        role: str,
        model: StoredModel | None,
    ) -> RunSpec:
        """All that the worker of this attempt needs to know."""
        state = self.state
        return RunSpec(
            digest=digest,
            run=reservation.run,
            attempt=reservation.attempt,
            request=Documents(state.folder).signed_text(digest),
            approvals=approvals_text(approvals),
            role=role,
            state=str(state.folder),
            store=str(state.blocks),
            audit=str(state.audit_path),
            link_key=str(state.folder / "keys" / "link.pem"),
            link_certificate=str(state.folder / "keys" / "link.crt"),
            organisation=state.organisation,
            bind=self.bind,
            seed="" if self.injected_seed is None else seeds.injected(self.injected_seed, role).hex(),
            cores=state.cores,
            model="" if model is None else str(model.path),
        )
