"""Deployment files."""
import json

TOY = '{ type = "toy", sessions = 12, decode_us = 2000 }'


def llama(model, context=1024, sessions=9, **more):
    """The engine of a real model."""
    extra = "".join(f", {key} = {json.dumps(value)}" for key, value in more.items())
    return f'{{ type = "llama", model = "{model}", context = {context}, sessions = {sessions}{extra} }}'


def address(of):
    """An address, or a port of 127.0.0.1."""
    return of if isinstance(of, str) else f"127.0.0.1:{of}"


def deployment_text(control, http, nodes=("a", "b", "c"), engine=TOY, links=True, defaults="", store="state.db", more=None,
                    transport="ucx", archive=None):
    """An orchestrator "control" and a gateway "edge" at these addresses or ports, and nodes that are standbys of each other;
    `engine` is that of all, or by node; `more` has further lines of an actor, by its id; `archive` is a folder where all conversations are kept."""
    more = dict(more or {})
    if archive:
        more["edge"] = more.get("edge", "") + f'\narchive = "file:{archive}"'
    text = f"""
[deployment]
name = "test"
[defaults]
{defaults}
[[actor]]
id = "control"
type = "orchestrator"
listen = "{address(control)}"
store = "{store if store.startswith("etcd:") else "sqlite:" + store}"
{more.get("control", "")}
[[actor]]
id = "edge"
type = "gateway"
listen = "{address(http)}"
{more.get("edge", "")}
"""
    for node in nodes:
        its_engine = engine[node] if isinstance(engine, dict) else engine
        text += f'[[actor]]\nid = "{node}"\ntype = "node"\nengine = {its_engine}\n{more.get(node, "")}\n'
    for node in nodes if links and len(nodes) > 1 else ():
        others = ", ".join(f'"{other}"' for other in nodes if other != node)
        text += f'[[link]]\nfrom = "{node}"\nto = [{others}]\ntransport = "{transport}"\n'
    for node in nodes if archive else ():
        text += f'[[link]]\nfrom = "{node}"\nto = "file:{archive}"\nevery_tokens = 16\n'
    return text
