"""Stand-ins for WebArena's six sites, with as much on them as a dozen of its tasks need.

    python -m tests.standins.webarena [PORT]

serves them on this and the following ports (default: 8070) until it is interrupted, and prints the
environment variables that lead there. They carry these tasks:

    shopping_admin   0 (an exact answer), 11 and 15 (an answer that must include something)
    gitlab           44, 258 (an address), 390 (what a page holds), 182 (an answer and an address)
    reddit           399 (what a page holds), 601 (an address, and what a page holds that a function finds)
    shopping         276 (an address), 506 (what a page holds whose address the shop's programs' door tells)
    map              16, 101 (judged)

Who isn't logged in is sent to the form, and only WebArena's accounts can log in.
"""

from __future__ import annotations

import sys
from html import escape
from typing import Self

from tests.standins.serving import Request, Response, Server, as_json, form, page, redirect, until_told

ACCOUNTS = {
    "shopping": ("emma.lopez@gmail.com", "Password.123"),
    "shopping_admin": ("admin", "admin1234"),
    "reddit": ("MarvelsGrantMan136", "test1234"),
    "gitlab": ("byteblaze", "hello1234"),
}
SITES = ("shopping", "shopping_admin", "reddit", "gitlab", "wikipedia", "map", "homepage")
MERGE_REQUEST = "/a11yproject/a11yproject.com/-/merge_requests/1531"
ISSUE = "/a11yproject/a11yproject.com/-/issues/719"
_NOTES = "/a11yproject/a11yproject.com/notes"


class WebArenaSites:
    """The sites; `environment` holds the variables that lead to them, and `posted` what was left there."""

    def __init__(self, port: int = 0) -> None:
        self.posted: dict[str, list[str]] = {}
        self.logins: list[str] = []
        """The sites that somebody logged in to, in order."""
        self.servers = {}
        for number, site in enumerate(SITES):
            answer = getattr(self, f"_{site}")
            self.servers[site] = Server(answer, port + number if port else 0)
        self.environment = {f"WA_{site.upper()}": server.url for site, server in self.servers.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers.values():
            server.close()

    def forget(self) -> None:
        """As on the first day."""
        self.posted.clear()

    def _log_in(self, site: str, request: Request, labels: dict[str, str], button: str) -> Response | None:
        """The answer of a site's login form; None for somebody who is logged in."""
        name, password = ACCOUNTS[site]
        if request.method == "POST" and set(request.form()) == set(labels):
            if tuple(request.form().values()) == (name, password):
                self.logins.append(site)
                return redirect("/", **{f"{site}_session": name})
            return page("Wrong name or password", "<p>Try again</p>", status=401)
        if request.cookies.get(f"{site}_session") == name:
            return None
        return page("Sign in", form(request.path, labels, button))

    def _shopping_admin(self, request: Request) -> Response:
        login = self._log_in(
            "shopping_admin", request, {"user": "Username", "password": "Password"}, "Sign in"
        )
        if login:
            return login
        if request.path == "/reviews":
            word = request.query.get("text", "")
            found = {"disappointed": 6, "best": 2}.get(word, 0)
            rows = "".join(
                f"<tr><td>Review {number + 1}: {escape(word)}</td></tr>" for number in range(found)
            )
            return page(
                "Reviews", form("/reviews", {"text": "Review"}, "Search", "get"), f"<table>{rows}</table>"
            )
        sold = (("Quest Lumaflex™ Band", 6), ("Sprite Yoga Strap", 5))
        rows = "".join(f"<tr><td>{name}</td><td>{count}</td></tr>" for name, count in sold)
        return page(
            "Dashboard / Magento Admin",
            '<h1>Dashboard</h1><a href="/reviews">Reviews</a><h2>Bestsellers 2022</h2>',
            f"<table><tr><th>Product</th><th>Quantity</th></tr>{rows}</table>",
        )

    def _gitlab(self, request: Request) -> Response:
        if request.path != "/users/sign_in" and "gitlab_session" not in request.cookies:
            return redirect("/users/sign_in")
        login = self._log_in(
            "gitlab", request, {"user": "Username or email", "password": "Password"}, "Sign in"
        )
        if login:
            return login
        if request.path == _NOTES and request.method == "POST":
            self.posted.setdefault(MERGE_REQUEST, []).append(request.json()["note"]["note"])
            return as_json({"valid": True})
        if request.path == MERGE_REQUEST:
            return _merge_request(["First thoughts", *self.posted.get(MERGE_REQUEST, [])])
        if request.path == ISSUE:
            return page("Issue", "<h1>Homepage content</h1><p>Status: closed</p>")
        if request.path == "/dashboard/todos":
            return page("To-Do List", "<h1>To-Do List</h1><p>Nothing to do</p>")
        if request.path == "/explore":
            return page("Explore", "<h1>Explore projects</h1>")
        return page(
            "Projects",
            "<h1>Projects</h1>",
            '<a href="/dashboard/todos">To-Do List</a> <a href="/explore">Explore</a> ',
            f'<a href="{MERGE_REQUEST}">Semantic HTML post</a> <a href="{ISSUE}">Homepage content</a>',
        )

    def _reddit(self, request: Request) -> Response:
        name = ACCOUNTS["reddit"][0]
        if request.path == "/login":
            labels = {"user": "Username", "password": "Password"}
            return self._log_in("reddit", request, labels, "Log in") or redirect("/")
        if request.cookies.get("reddit_session") != name:
            return page("Postmill", '<a href="/login">Log in</a>')
        if request.path == f"/user/{name}/edit_biography":
            if request.method == "POST":
                self.posted["biography"] = [request.form()["user_biography[biography]"]]
                return redirect(f"/user/{name}")
            return page("Biography", form(request.path, {"user_biography[biography]": "Biography"}, "Save"))
        if request.path == f"/user/{name}":
            about = "".join(self.posted.get("biography", []))
            return page(name, f'<div class="user-bio__biography">{escape(about)}</div>')
        if request.path == "/submit/nyc":
            if request.method == "POST":
                self.posted.setdefault("nyc", []).append(request.form()["title"])
                return redirect(f"/f/nyc/{len(self.posted['nyc'])}/a-post")
            return page("Create submission", form(request.path, {"title": "Title"}, "Create submission"))
        if request.path.startswith("/f/nyc/"):
            title = self.posted["nyc"][int(request.path.split("/")[3]) - 1]
            return page("nyc", f'<div class="submission__inner">{escape(title)}</div>')
        links = (
            f'<a href="/user/{name}/edit_biography">Edit biography</a> <a href="/submit/nyc">Ask in nyc</a>'
        )
        return page("Postmill", f"<p>{name}</p>{links}")

    def _shopping(self, request: Request) -> Response:
        if request.path == "/rest/default/V1/integration/admin/token":
            asked = request.json()
            known = (asked.get("username"), asked.get("password")) == ACCOUNTS["shopping_admin"]
            return as_json("token") if known else as_json({"message": "no such account"}, 401)
        if request.path == "/rest/V1/orders":
            if request.headers.get("authorization") != "Bearer token":
                return as_json({"message": "not allowed"}, 401)
            return as_json({"items": [{"increment_id": f"{len(self.posted.get('orders', [])):09}"}]})
        if request.path == "/customer/account/login/":
            return self._log_in(
                "shopping", request, {"email": "Email", "password": "Password"}, "Sign In"
            ) or redirect("/")
        if request.path.startswith("/sales/order/view/order_id/"):
            number = int(request.path.split("/")[5])
            item = ["nothing", *self.posted.get("orders", [])][number]
            return page("Order", f'<div class="order-details-items ordered">{escape(item)}</div>')
        if request.path == "/order" and request.method == "POST":
            self.posted.setdefault("orders", []).append(request.form()["sku"])
            return page("Thank you", "<h1>Thank you for your purchase!</h1>")
        if request.path == "/catalogsearch/result/":
            return page("Search results", f"<h1>Results for {escape(request.query.get('q', ''))}</h1>")
        products = "".join(
            f'<li>{name}<form method="post" action="/order"><input type="hidden" name="sku" value="{sku}">'
            f"<button>Buy {name}</button></form></li>"
            for name, sku in (("Plant Mince", "B01CTR3DLE"), ("Bean Loaf", "B000BEANLF"))
        )
        return page(
            "One Stop Market",
            "<h1>One Stop Market</h1>",
            form("/catalogsearch/result/", {"q": "Search"}, "Search", "get"),
            f"<h2>Meat Substitutes</h2><ul>{products}</ul>",
        )

    def _wikipedia(self, request: Request) -> Response:
        return page("Wikipedia", "<h1>Wikipedia</h1>")

    def _map(self, request: Request) -> Response:
        return page("OpenStreetMap", "<h1>Map</h1><p>Driving: 2min. Walking: 16min.</p>")

    def _homepage(self, request: Request) -> Response:
        return page("Homepage", "<h1>Sites</h1>")


def _merge_request(notes: list[str]) -> Response:
    """Its notes are sent in JSON, as GitLab's are; but the click waits for it, so that tests need not."""
    items = "".join(f'<li><div class="timeline-discussion-body">{escape(note)}</div></li>' for note in notes)
    script = """
        document.getElementById("send").onclick = () => {
            const note = {noteable_type: "MergeRequest", note: document.getElementById("note").value};
            const request = new XMLHttpRequest();
            request.open("POST", "NOTES?target_id=72594&target_type=merge_request", false);
            request.setRequestHeader("Content-Type", "application/json");
            request.send(JSON.stringify({note}));
            location.reload();
        };
    """.replace("NOTES", _NOTES)
    return page(
        "Merge request",
        f'<h1>Semantic HTML post</h1><ul id="notes-list">{items}</ul>',
        '<p><label for="note">Comment</label><input id="note"><button id="send">Comment</button></p>',
        f"<script>{script}</script>",
    )


def main() -> None:
    """See the module's docstring."""
    with WebArenaSites(int(sys.argv[1]) if len(sys.argv) > 1 else 8070) as sites:
        for name, value in sites.environment.items():
            print(f"export {name}={value}", flush=True)
        until_told()


if __name__ == "__main__":
    main()
