#!/usr/bin/env python3
"""Fails, with file and line, on a line that stands in the wrong room. The rules are the tables at the top; rooms are
folders, and their arrows are drawn in docs/architecture.md. Needs only Python; `style_test_selftest.py` shows that each rule
catches what it is for.

    python3 tests/tidy/style_test.py [ROOT]
"""
import fnmatch
import os
import re
import subprocess
import sys

# --- the tables -------------------------------------------------------------------------------------------------------

# Which rooms a room may include besides itself. A room in a folder of another is below it, so the outer one is not listed.
MAY_INCLUDE = {
    "schemas": (),
    "transports": ("schemas", "transports/stores"),
    "transports/stores": ("schemas",),
    "gpu": ("schemas",),
    "actors/protocol": ("schemas",),
    "actors/engines": ("schemas", "gpu"),
    "actors/text": ("schemas", "actors/engines"),
    "actors/stores": ("schemas", "actors/protocol"),
    "actors/archive": ("schemas", "transports/stores", "actors/protocol"),
    "actors": ("schemas", "gpu", "transports", "transports/stores", "actors/protocol", "actors/engines", "actors/text",
               "actors/stores", "actors/archive"),
    "apps/http": ("schemas", "actors", "actors/engines", "actors/text"),
    "apps": ("schemas", "gpu", "transports", "transports/stores", "actors", "actors/protocol", "actors/engines",
             "actors/text", "actors/stores", "apps/http"),
}
TOP_ROOMS = sorted({room.partition("/")[0] for room in MAY_INCLUDE} | {"tests"})

# Third-party headers, the library they belong to, and the files that may include them. Tests may include any.
OWNERS = (
    (r"(capnp|kj)/|.*\.capnp\.h$", "Cap'n Proto", ("schemas/*",)),
    (r"(ucp|ucs|uct|ucm)/", "UCX", ("transports/*",)),
    (r"grpc(pp)?/", "gRPC", ("transports/*",)),
    (r"cuda.*\.h$|cuda/", "CUDA", ("gpu/*",)),
    (r"caf/", "CAF", ("actors/*", "apps/*")),
    (r"(llama|gguf|ggml[\w-]*)\.h$", "llama.cpp", ("actors/engines/llama_*",)),
    (r"sqlite3\.h$", "SQLite", ("actors/stores/*",)),
    (r"curl/", "libcurl", ("actors/stores/*",)),
    (r"openssl/", "OpenSSL", ("actors/stores/*",)),
    (r"boost/", "Boost", ("apps/http/*",)),
    (r"nlohmann/", "nlohmann-json", ("apps/*", "actors/*.cpp", "actors/stores/*")),
    (r"toml\+\+/", "toml++", ("apps/*", "actors/graph*")),
    (r"CLI/", "CLI11", ("apps/*",)),
    (r"xxhash\.h$", "xxHash", ("schemas/*",)),
    (r"spdlog/", "spdlog", ("schemas/*",)),
    (r"catch2/", "Catch2", ()),
    (r"schemas/log\.hpp$", "the log", ("*",)),
)
# The plain objects that actors drive (target baton_cluster), and those among them that keep no log either.
STEPPED = ("actors/gateway_archive.?pp", "actors/gateway_core.?pp", "actors/gateway_routes.?pp", "actors/gateway_sessions.?pp",
           "actors/gateway_turn.?pp", "actors/engine_loop.?pp")
PLAIN = (*STEPPED, "actors/link_driver.?pp", "actors/data_plane.?pp", "actors/messages.hpp")
# Files of an owner that must stay clear of a library all the same.
NOT_OWNERS = {
    "the log": ("actors/protocol/*", *STEPPED),
    "CAF": ("actors/protocol/*", "actors/engines/*", "actors/text/*", "actors/runtime.hpp",
            "actors/completion_service.hpp", "apps/http/*", *PLAIN),
    "SQLite": ("actors/protocol/*", "actors/engines/*", "actors/text/*", *PLAIN),
    "nlohmann-json": ("actors/protocol/*", "actors/engines/*", *PLAIN),
}
# Libraries that must not reach another room through a header of ours either: that header is for its room alone.
HIDDEN = ("Cap'n Proto", "UCX", "CUDA", "CAF", "llama.cpp", "SQLite", "libcurl", "OpenSSL", "Boost")

# What hides time, chance or concurrency: (rule, the files it holds for, pattern, message, the files that may, each with its
# reason).
FORBIDDEN = (
    ("wall-clock", "*", r"\b(system_clock|gettimeofday)\b", "a wall clock; take time as an argument or from steady_clock", (
        ("apps/*", "people read dates: the `created` field of an answer, the dashboard"),
    )),
    ("random", "*", r"(?<![\w.>])s?rand\s*\(", "rand; take a seeded generator as an argument", ()),
    ("sleep", "*", r"\b(sleep_for|sleep_until|usleep|nanosleep)\b|(?<![\w.>])sleep\s*\(", "sleeping; use a timer or a condition", (
        ("tests/*", "tests wait for real processes"),
        ("apps/*", "the demo and the command line pace what a person watches"),
    )),
    ("thread", "*", r"\bstd::j?thread\b(?!::)|\bpthread_create\b|\bstd::async\b", "a raw thread; actors run on CAF's threads", (
        ("tests/*", "tests race real threads against each other"),
        ("transports/*_transport.?pp", "the progress thread of the data plane"),
        ("transports/ucx_engine.?pp", "the progress thread of the data plane, which lives with the worker it drives"),
        ("apps/*", "the threads of the HTTP server; main waits for signals; the demo reads its children's output"),
    )),
    ("pure", "actors/protocol/*", r"_clock::now|\bstd::(mutex|shared_mutex|condition_variable|atomic\w*|cout|cerr)\b",
     "a clock, lock or log in the room that has none", (
         ("actors/protocol/engine_places.hpp", "the one count that the two sides of a node share, each in its thread"),
     )),
    *(("pure", file, r"_clock::now|\bstd::(mutex|shared_mutex|condition_variable|atomic\w*|cout|cerr)\b",
       "a clock, lock or log in an object that has none; time is an argument", ())
      for file in (*STEPPED, "actors/link_driver.?pp")),
)

# Longer files and functions than these, each with its reason.
MAX_FILE_LINES = 600
LONG_FILES = {}
MAX_FUNCTION_LINES = 90
LONG_FUNCTIONS = {}

REGISTRIES = (r"pypi\.org", r"pythonhosted\.org", r"(deb|security)\.debian\.org", r"registry\.npmjs\.org", r"crates\.io",
              r"proxy\.golang\.org", r"rubygems\.org", r"anaconda\.(org|com)", r"\b(docker|ghcr|quay)\.io",
              r"(download|files)\.pytorch\.org", r"repo\d?\.maven")
# Patterns that hold for every line of every text file; written so that they do not match themselves.
EVERYWHERE = (
    ("registry", re.compile("|".join(REGISTRIES)), "a registry's host; name a package and let its client find it"),
    ("machine-path", re.compile(r"(?<![\w.~$}\-/])/(work|root|home)/"), "a path of one machine"),
    ("unfinished", re.compile(r"\b(TO(?:DO)|FIX(?:ME))\b"), "an unfinished thought; do it or file it"),
)

SOURCE = (".hpp", ".cpp", ".h")
LIMITED_LENGTH = SOURCE + (".py", ".sh", ".cmake", ".capnp", ".js")
NOT_TEXT = (".png", ".gguf", ".bin", ".ico", ".woff2", ".svg")


# --- reading ----------------------------------------------------------------------------------------------------------

def list_files(root):
    """Tracked and new files, not those ignored. Without git (an unpacked archive), everything but build and hidden folders."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if listed.returncode == 0:
        names = listed.stdout.split("\0")
    else:
        names = []
        for folder, below, files in os.walk(root):
            below[:] = [name for name in below if name != "build" and not name.startswith((".", "__pycache__"))]
            names += [os.path.relpath(os.path.join(folder, name), root) for name in files]
    return sorted({name for name in names if name and os.path.isfile(os.path.join(root, name))})


def blank(match):
    """The same number of lines and columns with nothing in them."""
    return re.sub(r"[^\n]", " ", match.group(0))


def code_only(text):
    """Source text without comments and without what stands in strings and characters; lines and columns stay."""
    token = r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\''
    return re.sub(token, blank, text, flags=re.DOTALL)


def matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def room_of(name):
    """The innermost room of a file, or None outside the rooms."""
    folder = os.path.dirname(name)
    while folder and folder not in MAY_INCLUDE:
        folder = os.path.dirname(folder)
    return folder or None


def includes_of(text):
    """(line number, whether quoted, path) of each include."""
    without_comments = re.sub(r"//[^\n]*|/\*.*?\*/", blank, text, flags=re.DOTALL)
    for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', without_comments, flags=re.MULTILINE):
        yield text.count("\n", 0, match.start()) + 1, match.group(1) is not None, match.group(1) or match.group(2)


def blocks_of(text):
    """Walks the braces of a source file; yields (kind, name or None, first line, last line, body) of the blocks that stand in
    no function: kind is "namespace" or "function". A heuristic that knows no macros."""
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, code_only(text), flags=re.MULTILINE)
    stack, statement, inside_function = [], 0, 0
    for match in re.finditer(r"[{};]", code):
        at = match.start()
        if match.group() == ";":
            statement = at + 1
        elif match.group() == "{":
            head = code[statement:at]
            begin = statement + len(head) - len(head.lstrip())
            kind, name = kind_of(head)
            if inside_function:
                kind = "other"
            inside_function += kind in ("function", "other")
            stack.append((kind, name, begin, at, statement))
            statement = at + 1
        elif stack:
            kind, name, begin, opened, statement_before = stack.pop()
            inside_function -= kind in ("function", "other")
            if kind in ("namespace", "function"):
                parents = [entry[1] for entry in stack if entry[0] == "namespace"]
                full = "::".join(parents + [name]) if kind == "namespace" and None not in parents + [name] else None
                yield kind, full, code.count("\n", 0, begin) + 1, code.count("\n", 0, at) + 1, code[opened + 1:at]
            # After the braces of an initialiser, as in `x::x() : a_{1}, b_{2} {`, the statement goes on.
            goes_on = re.match(r"\s*[,{]", code[at + 1:at + 200])
            statement = statement_before if kind != "namespace" and goes_on else at + 1


def kind_of(head):
    """What the text before an opening brace makes of the block: (kind, name of a namespace)."""
    head = re.sub(r"\b(public|private|protected)\s*:", " ", head).strip()
    namespace = re.match(r"(?:inline\s+)?namespace\b\s*([\w:]*)$", head)
    if namespace:
        return "namespace", namespace.group(1) or None
    if re.match(r"extern\s*$", head):  # the language's name is blanked: it is a string
        return "scope", None
    head = re.sub(r"^template\s*<.*?>\s*(?=\w)", "", head, flags=re.DOTALL)
    if re.match(r"(class|struct|union|enum)\b", head) and ")" not in head:
        return "scope", None
    return ("function" if ")" in head and not head.endswith("=") else "other"), None


# --- the rules --------------------------------------------------------------------------------------------------------

def may_include(name, library):
    owners = next(owners for _, candidate, owners in OWNERS if candidate == library)
    return name.startswith("tests/") or (matches(name, owners) and not matches(name, NOT_OWNERS.get(library, ())))


def libraries_behind(name, sources, seen):
    """The hidden libraries that an include of this header of ours brings along."""
    found = set()
    if name in seen or name not in sources:
        return found
    seen.add(name)
    for _, quoted, path in includes_of(sources[name]):
        found |= {library for pattern, library, _ in OWNERS if library in HIDDEN and re.match(pattern, path)}
        if quoted:
            found |= libraries_behind(path, sources, seen)
    return found


def check_includes(name, sources):
    room, found = room_of(name), list(includes_of(sources[name]))
    for line, quoted, path in found:
        top = path.partition("/")[0]
        if quoted and (top not in TOP_ROOMS or "/" not in path or ".." in path.split("/")):
            yield line, "include-path", f'"{path}" does not begin with a room'
        elif not quoted and top in TOP_ROOMS and "/" in path:
            yield line, "include-path", f"<{path}> is ours: quote it"
        elif quoted and room and room_of(path) not in (room, *MAY_INCLUDE[room]):
            yield line, "arrow", f'{room} may not include "{path}"'
        for pattern, library, _ in OWNERS:
            if re.match(pattern, path) and not may_include(name, library):
                yield line, "owner", f"{library} does not belong here"
        for library in sorted(libraries_behind(path, sources, set())) if quoted else ():
            if not may_include(name, library):
                yield line, "owner-behind", f'"{path}" brings {library}, which does not belong here'
    own = re.sub(r"\.cpp$", ".hpp", name)
    if own != name and own in sources and (not found or found[0][2] != own):
        yield (found[0][0] if found else 1), "own-header", f'"{own}" must be the first include'


def namespace_of(room):
    return "baton" if room == "schemas" else "baton::" + room.replace("/", "::")


def room_of_namespace(full):
    """The innermost room whose namespace this is or is within, or None."""
    homes = [room for room in MAY_INCLUDE if (full + "::").startswith(namespace_of(room) + "::")]
    return max(homes, key=lambda room: len(namespace_of(room)), default=None)


def check_namespace(name, text):
    room, at_home = room_of(name), False
    for kind, full, line, _, body in blocks_of(text):
        if kind != "namespace" or full is None or re.match(r"(std|caf)\b", full):
            continue  # unnamed, or specialisations of templates of others
        if room_of_namespace(full) == room:
            at_home = True
            continue
        outer = namespace_of(room).startswith(full + "::") and re.search(r"\bnamespace\b", body)
        declarations = re.fullmatch(r"\s*((class|struct|enum(\s+class)?)\s+\w+(\s*:\s*[\w:]+)?\s*;\s*)+", body)
        if not outer and not declarations:
            yield line, "namespace", f"namespace {full} in {room}, which is {namespace_of(room)}"
    if name.endswith(".hpp") and not at_home and re.search(r"^\s*[^#\s]", code_only(text), flags=re.MULTILINE):
        yield 1, "namespace", f"nothing in namespace {namespace_of(room)}"


def check_schema(name, text):
    if 'Cxx.namespace("baton::wire")' not in text.replace("$", ""):
        yield 1, "namespace", "a schema must generate into baton::wire"


def check_calls(name, text):
    for line, content in enumerate(code_only(text).split("\n"), 1):
        for rule, where, pattern, message, allowed in FORBIDDEN:
            if re.search(pattern, content) and matches(name, [where]) and not matches(name, [file for file, _ in allowed]):
                yield line, rule, message


def check_functions(name, text):
    if not name.endswith(".cpp") or name.startswith("tests/") or name in LONG_FUNCTIONS:
        return
    for kind, _, first, last, _ in blocks_of(text):
        if kind == "function" and last - first + 1 > MAX_FUNCTION_LINES:
            yield first, "function-length", f"a function of {last - first + 1} lines (limit {MAX_FUNCTION_LINES})"


def check_text(name, text):
    lines = text.split("\n")
    if name.endswith(LIMITED_LENGTH) and len(lines) - 1 > MAX_FILE_LINES and name not in LONG_FILES:
        yield len(lines) - 1, "file-length", f"{len(lines) - 1} lines (limit {MAX_FILE_LINES})"
    for line, content in enumerate(lines, 1):
        for rule, pattern, message in EVERYWHERE:
            if pattern.search(content):
                yield line, rule, message


def read(root, name):
    """The text of a file, or None if it is not text."""
    if name.endswith(NOT_TEXT):
        return None
    try:
        with open(os.path.join(root, name), encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError:
        return None


def check_tree(root):
    """Each break of a rule under root, as (file, line, rule, message), and the number of files seen."""
    texts = {name: text for name in list_files(root) if (text := read(root, name)) is not None}
    sources = {name: text for name, text in texts.items() if name.endswith(SOURCE) and name.partition("/")[0] in TOP_ROOMS}
    problems = []
    for name, text in texts.items():
        found = list(check_text(name, text))
        if name.endswith(".capnp") and name.startswith("schemas/"):
            found += check_schema(name, text)
        if name in sources:
            found += [*check_includes(name, sources), *check_calls(name, text), *check_functions(name, text)]
            if room_of(name) and not name.endswith(".h"):
                found += check_namespace(name, text)
        problems += [(name, *problem) for problem in sorted(found)]
    return problems, len(texts)


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    problems, seen = check_tree(root)
    for name, line, rule, message in problems:
        print(f"{name}:{line}: {message} [{rule}]")
    print(f"style: {len(problems)} problems in {seen} files")
    return 1 if problems or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
