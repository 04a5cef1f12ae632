"""The part of a call-based test for arguments with names; call_driver.py compiles its text where a test has them.

Whether a record is an argument or holds the arguments by their names, only the function's own parameters tell. They are read
here as inspect.signature does, which would have to be imported.
"""


def fitted(function, given):
    """The positional and the keyword arguments by which a function takes what calls.encode_args was given."""
    values, whole, likely, keys = (given, None, True, list(given)) if isinstance(given, dict) else given
    by_position, as_record = ([*values.values()], {}), ([whole or values], {})
    inner, bound = function, hasattr(function, "__self__")
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    if not hasattr(inner, "__code__"):
        inner, bound = inner.__init__ if isinstance(inner, type) else type(inner).__call__, True
    code = getattr(inner, "__code__", None)
    if not code:
        return by_position if likely else as_record
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    parameters, named_only = names[bound : code.co_argcount], names[code.co_argcount :]
    defaults = inner.__defaults__ or ()  # of the last parameters
    required = parameters[: max(0, len(parameters) - len(defaults))]
    needed = {*required, *named_only} - (inner.__kwdefaults__ or {}).keys()
    any_number, any_name = code.co_flags & 4, code.co_flags & 8
    known = {*keys} <= {*parameters, *named_only} or (any_name and not any_number)  # both: it passes on what it gets
    if known and needed <= values.keys() and (values or not parameters):
        # By position all the same where it can be: what stands around the function may take no names.
        count = max((count for count, name in enumerate(parameters, 1) if name in values), default=0)
        of_parameters = enumerate(parameters[:count], -len(parameters))
        positional = [values[name] if name in values else defaults[place] for place, name in of_parameters]
        return positional, {name: value for name, value in values.items() if name not in parameters}
    if isinstance(given, dict) or len(values) < 2:
        return by_position if likely else as_record
    takes_all = len(required) <= len(values) and (any_number or len(values) <= len(parameters))
    return by_position if takes_all and (any_number or len(required) != 1) else as_record
