"""The part of a call-based test that runs in the program's process. Its text, and one line that calls `call`, is the driver.

Needs nothing of this project, and imports nothing that the interpreter has not loaded already: the process lives for a few
milliseconds, and json alone would double them. calls.py, which reads what is written here, says how the two fit together.
"""

import marshal
import os
import sys

RESULT_FD = 3
MAX_DEPTH = 100  # of nested containers; what is deeper counts as no value
LONG = 1 << 63  # an integer beyond may have more digits than Python converts, so it goes as hexadecimal
ESCAPES = {34: '\\"', 92: "\\\\", **{code: f"\\u{code:04x}" for code in range(32)}}
MODULES = (
    "bisect collections copy datetime decimal fractions functools heapq itertools json math operator random re string sys "
    "typing"
)
NAMES = {
    "typing": "Annotated Any Callable ClassVar Collection Counter DefaultDict Deque Dict Final FrozenSet Generator Generic "
    "Hashable Iterable Iterator List Literal Mapping MutableMapping MutableSequence NamedTuple NoReturn Optional Protocol "
    "Sequence Set Tuple Type TypeAlias TypeVar TypedDict Union cast overload",
    "collections": "ChainMap Counter OrderedDict defaultdict deque namedtuple",
    "itertools": "accumulate chain combinations combinations_with_replacement count cycle dropwhile groupby islice "
    "pairwise permutations product repeat starmap takewhile zip_longest",
    "functools": "cache cmp_to_key lru_cache partial reduce",
    "heapq": "heapify heappop heappush heappushpop heapreplace nlargest nsmallest",
    "bisect": "bisect_left bisect_right insort insort_left insort_right",
    "math": "atan2 ceil comb factorial floor gcd hypot inf isqrt lcm log log10 log2 perm pi prod sqrt",
    "operator": "itemgetter",
    "string": "ascii_letters ascii_lowercase ascii_uppercase digits",
    "copy": "deepcopy",
    "dataclasses": "dataclass",
}


def encode_value(value):
    """Return a value as bytes for calls.decode_value. What is no plain data becomes the name of its type."""
    pieces = []
    write(value, pieces.append, MAX_DEPTH)
    return "".join(pieces).encode("utf-8", "surrogatepass")


def write(value, out, depth):
    """Write a value piece by piece: JSON, with an object of one key, its tag, for what JSON has not."""
    if value is None or value is True or value is False:
        out("null" if value is None else "true" if value else "false")
    elif isinstance(value, str):
        out(f'"{str.translate(value, ESCAPES)}"')
    elif isinstance(value, int):
        out(int.__repr__(value) if -LONG < value < LONG else f'{{"int":"{int.__format__(value, "x")}"}}')
    elif isinstance(value, float):
        digits = float.__repr__(value)
        out({"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(digits, digits))
    elif isinstance(value, complex):
        out('{"complex":')
        write([value.real, value.imag], out, 1)
        out("}")
    elif isinstance(value, (bytes, bytearray)):
        out(f'{{"bytes":"{bytes(value).hex()}"}}')
    elif depth == 0:
        out('{"other":"nested too deeply"}')
    elif isinstance(value, (list, range, type({}.keys()), type({}.values()), type({}.items()))):
        if set(map(type, value)) == {int} and min(value) > -LONG and max(value) < LONG:
            return out("[" + ",".join(map(repr, value)) + "]")
        separator = "["
        for element in value:
            out(separator)
            write(element, out, depth - 1)
            separator = ","
        out("[]" if separator == "[" else "]")
    elif isinstance(value, dict):
        separator = '{"dict":['
        for key, element in dict.items(value):
            out(separator + "[")
            write(key, out, depth - 1)
            out(",")
            write(element, out, depth - 1)
            separator = "],"
        out('{"dict":[]}' if separator[0] == "{" else "]]}")
    elif isinstance(value, (tuple, set, frozenset)):
        tag = "tuple" if isinstance(value, tuple) else "set" if isinstance(value, set) else "frozenset"
        out(f'{{"{tag}":')
        write(list(value), out, depth)
        out("}")
    elif type(value).__name__ == "deque":
        write(list(value), out, depth)
    elif hasattr(value, "tolist"):  # numpy's arrays and scalars
        write(value.tolist(), out, depth - 1)
    elif type(value).__name__ in ("Decimal", "Fraction") and value - value == 0:
        write(int(value) if value == int(value) else float(value), out, depth)
    else:
        out('{"other":')
        write(str(type(value).__name__), out, 0)
        out("}")


def names_in(code):
    """Every name that a code object and those within it look up."""
    names, codes = set(), [code]
    while codes:  # no recursion: functions may be nested more deeply than Python's stack goes
        part = codes.pop()
        names.update(part.co_names)
        codes += [constant for constant in part.co_consts if isinstance(constant, type(code))]
    return names


def modules_of(names):
    """The module that each of the names is, or is of, for those that MODULES and NAMES have."""
    modules = {name: module for module, names_of in NAMES.items() for name in names_of.split()}
    modules.update((name, name) for name in MODULES.split())
    return {name: modules[name] for name in names & modules.keys()}


def prelude(names):
    """What those of the names stand for that MODULES and NAMES have."""
    found = {}
    for name, module_name in modules_of(names).items():
        module = __import__(module_name)
        if name == module_name:
            found[name] = module
        elif hasattr(module, name):  # some came with later versions of Python
            found[name] = getattr(module, name)
    return found


def find(namespace, fn_name):
    """The function to call: a method of Solution, a function, or the method of the only class that has one."""
    class_name, _, name = fn_name.rpartition(".")
    owner = namespace.get(class_name or "Solution")
    if isinstance(owner, type) and hasattr(owner, name):
        return getattr(owner(), name)
    if not class_name:
        if name in namespace:
            return namespace[name]
        owners = [value for value in namespace.values() if isinstance(value, type) and name in vars(value)]
        if len(owners) == 1:
            return getattr(owners[0](), name)
    raise NameError(f"the program defines no {fn_name}")


def call(program, fn_name, fitting, names=(), around=lambda function: function):
    """Read the arguments, run the program's text as a module, call its function and write what it returns.

    fitting: the text of fit_driver.py, which few rows need; names: what else the program may use without a definition of
    its own; around: what the function is called through.
    """
    given = marshal.loads(bytes.fromhex(sys.stdin.read()))
    module = sys.modules["solution"] = type(sys)("solution")
    code = compile(program, "program.py", "exec", dont_inherit=True)
    wanted = names_in(code) - {fn_name.rpartition(".")[2]}  # or the library's gcd would pass for the program's
    module.__dict__.update(prelude(wanted))
    module.__dict__.update(names)
    exec(code, module.__dict__)
    function = find(module.__dict__, fn_name)
    arguments, named = given, {}
    if not isinstance(given, list):
        parts = {}
        exec(fitting, parts)
        arguments, named = parts["fitted"](function, given)
    data = memoryview(encode_value(around(function)(*arguments, **named)))
    while data:
        data = data[os.write(RESULT_FD, data) :]
