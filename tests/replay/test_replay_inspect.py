"""What a person sees of a buffer."""

import json

from agentmem.failures import Failure, FailureKind
from agentmem.replay.inspect import summary
from tests.replay.makers import make_group, played


def test_the_summary_names_leases_dead_letters_and_ready_groups_but_no_password(buffer, server):
    buffer.submit(make_group("a", 1) + make_group("b", 2))
    claims = buffer.claim("w", 2)
    buffer.commit(played(claims[:1]))
    buffer.fail(claims[1:], Failure(kind=FailureKind.DATA, what="no such level"), retry=False)
    buffer.claim("w2", 1)
    buffer.set_cursor("tasks", 3)
    seen = summary(buffer)
    assert seen["identity_holds"]
    assert seen["leases"] == {"w2": 1}
    assert seen["oldest_ready"] == ["a"]
    assert seen["cursors"] == {"tasks": "3"}
    assert [d["what"] for d in seen["dead_letters"]] == ["no such level"]
    assert server.url.split(":")[2].split("@")[0] not in json.dumps(seen)
