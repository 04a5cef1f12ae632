"""The part of a call-based test for programs that work on LeetCode's linked lists and trees; its text follows call_driver's.

Rows hold them as lists, in LeetCode's own order. A parameter whose type hint names ListNode or TreeNode gets nodes, and
nodes that are returned become lists again. As there, the classes need no definition; a program's own come first.
"""


class ListNode:
    def __init__(self, val=0, next=None):
        self.val = val
        self.next = next


class TreeNode:
    def __init__(self, val=0, left=None, right=None):
        self.val = val
        self.left = left
        self.right = right


NODES = {"ListNode": ListNode, "TreeNode": TreeNode}


def with_nodes(function):
    """A function that gets and returns lists where the program's own function gets and returns nodes."""
    inner = getattr(function, "__wrapped__", function)
    hints = {name: str(hint) for name, hint in getattr(inner, "__annotations__", {}).items()}
    code = getattr(inner, "__code__", None)
    names = code.co_varnames[hasattr(function, "__self__") : code.co_argcount] if code else ()
    classes = {name: inner.__globals__.get(name, NODES[name]) for name in NODES} if code else {}

    def call_with_lists(*arguments, **named):
        arguments = list(arguments)
        for position, name in enumerate(names[: len(arguments)]):
            hint = hints.get(name, "")
            for kind in NODES:
                if kind in hint and isinstance(arguments[position], list):
                    several = "list[" in hint.lower()
                    build = list_of if kind == "ListNode" else tree_of
                    lists = arguments[position] if several else [arguments[position]]
                    built = [build(values, classes[kind]) for values in lists]
                    arguments[position] = built if several else built[0]
        value = function(*arguments, **named)
        hint = hints.get("return", "")
        empty = value is None and any(kind in hint for kind in NODES)
        return [] if empty else values_of(value)

    return call_with_lists


def list_of(values, node):
    head = None
    for value in reversed(values):
        following, head = head, node(value)
        head.next = following
    return head


def tree_of(values, node):
    """The tree whose nodes come level by level, from left to right, with None where there is none."""
    nodes = [None if value is None else node(value) for value in values]
    parents = (parent for parent in nodes if parent is not None)
    children = iter(nodes[1:])
    for parent in parents:
        parent.left, parent.right = next(children, None), next(children, None)
    return nodes[0] if nodes else None


def values_of(value):
    """Nodes as lists of their values; a list of nodes as a list of lists; anything else as it is."""
    if isinstance(value, (list, tuple)):
        return [values_of(element) for element in value] if any(map(is_node, value)) else value
    if not is_node(value):
        return value
    values, nodes, seen = [], [value], set()
    for node in nodes:  # grows while it is read
        if id(node) in seen:
            raise ValueError("the nodes form a circle")
        if node is None:
            values.append(None)
            continue
        seen.add(id(node))
        values.append(node.val)
        if hasattr(node, "next"):
            nodes += [node.next] if node.next is not None else []
        else:
            nodes += [node.left, node.right]
    while values and values[-1] is None:
        values.pop()
    return values


def is_node(value):
    return type(value).__name__ in NODES and hasattr(value, "val")
