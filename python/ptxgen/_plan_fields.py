# SPDX-License-Identifier: MIT
"""What Python gives for the tensors and parameters of a plan, as structs of C: arrays tell their addresses, types and
numbers of elements, which must fit one another."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping
from collections.abc import Sequence as SequenceOf
from typing import Any, Dict, List, Optional, Sequence, Tuple

from . import _c
from ._library import NAMES, Keeps, c, struct
from .arrays import ArrayInfo, address_of, on_host
from .errors import InvalidError

# Which fields of a tensor's row give its types where they are arrays; the first is the tensor's own.
_ARRAYS = {"ptx_clip_tensor": {"data": "dtype"},
           "ptx_step_tensor": {"parameter": "dtype", "gradient": "gradient_dtype", "ema": "ema_dtype"}}
# The fields of addresses, and whether they are several.
_ADDRESSES: Dict[str, List[Tuple[str, bool]]] = {
    cls.__name__: [(field, issubclass(dict(cls._fields_)[field], ctypes.Array))  # type: ignore[arg-type]
                   for field, kind in cls.kinds.items() if kind == "address"]
    for cls in (_c.ptx_clip_tensor, _c.ptx_step_tensor)}
# The type of the states in a format of <ptxgen/rules.h>, and of what is beside the parameter.
_FORMATS: Dict[str, Tuple[str, Optional[str]]] = {
    name: (state.lower(), None if beside == "NONE" else beside.lower())
    for _, name, state, beside in _c.TABLES["PTX_STEP_FORMATS"]}
_LEFT = ("amax", "fp8_scale", "fp8_scale_inv")  # an f32 a tensor
BLOCK = 256  # elements that share an absmax or a scale, an f32
_SMALL = {"master_24bit": (32, "f16")}  # and in other formats
# The types of what plans and groups have at addresses; the rest are structs.
_AT = {"max_norms_at": "f32", "loss_scale_at": "f32", "found_inf_at": "f32", "found_inf_to": "f32",
       "sums_at": "f64", "lr_at": "f32", "limits_at": "f32", "skip_at": "f32", "loss_at": "f32",
       "factor_at": "f32"}


def taken(cls: Any, fields: Dict[str, Any], what: str,
           keeps: Keeps) -> List[Tuple[str, str, ArrayInfo]]:
    """The arrays among a tensor's fields: the field, its full name, and what is known of the array. They
    become addresses there; `keeps` collects them."""
    found = []

    def take(field: str, where: str, value: Any) -> Any:
        if value is None or isinstance(value, int):
            return value
        info = address_of(value, where)
        found.append((field, where, info))
        keeps[where] = info.keep
        return info.address

    for field, several in _ADDRESSES[cls.__name__]:
        value = fields.get(field)
        if value is None or isinstance(value, (int, str, bytes)):
            continue
        if not several:
            fields[field] = take(field, f"{what}.{field}", value)
        elif isinstance(value, Iterable):
            values = list(value)
            if not all(isinstance(one, int) for one in values):
                values = [take(field, f"{what}.{field}[{k}]", one) for k, one in enumerate(values)]
            fields[field] = values
    return found


OwnTypes = Sequence[Sequence[Optional[str]]]


def own_types(groups: Any) -> OwnTypes:
    """By group, the types that states of its own rule have in every format."""
    rules: List[Any] = [group.get("own_rule") if isinstance(group, Mapping) else None for group in groups or ()]
    return [[state.dtype for state in rule.states.values()] if hasattr(rule, "states") else [] for rule in rules]


def _type_of_state(row: Any, what: str, types: OwnTypes) -> Tuple[Optional[str], str]:
    own = types[row.group] if row.group < len(types) else []
    k = int(what[what.rindex("[") + 1:-1])
    if k < len(own) and own[k]:
        return own[k], f"its rule has {own[k]} there"
    name = NAMES["ptx_step_format"][row.format]
    return _FORMATS[name][False], f"format {name!r} has {_FORMATS[name][False]} there"


def _blocks(row: Any, transposed: bool) -> int:
    """How many blocks of codes a tensor's matrix has, or the transposed one."""
    columns = max(int(row.fp8_columns), 1)
    lines = int(row.count) // columns
    if transposed:
        lines, columns = columns, lines
    height = 1 if NAMES["ptx_fp8_blocks"][row.fp8_blocks] == "1x128" else 128
    return -(-lines // height) * -(-columns // 128)


def fits(row: Any, field: str, what: str, info: ArrayInfo, types: OwnTypes = ()) -> None:
    """Whether an array is what a tensor has in the field."""
    count, needs = row.count, f"count is {row.count}"
    dtype: Optional[str] = NAMES["ptx_type"].get(row.dtype)
    why = f"dtype is {dtype}"
    if field == "gradient" and row.gradient_dtype:
        dtype = NAMES["ptx_type"].get(row.gradient_dtype)
        why = f"gradient_dtype is {dtype}"
    elif field == "accumulator":
        dtype, why = "f32", "an accumulator is f32"
    elif field == "accumulated":
        dtype, count = "u32", 2
        why, needs = "what an accumulator has is u32", "that is two"
    elif field == "ema":
        dtype = NAMES["ptx_type"].get(row.ema_dtype)
        why = f"ema_dtype is {dtype}"
    elif field == "fp8_transposed_scale_inv" or field == "fp8_scale_inv" and row.fp8_blocks:
        dtype, why = "f32", f"{field} is f32"
        if row.fp8_blocks and row.fp8_columns and row.count % row.fp8_columns == 0:
            count = _blocks(row, field == "fp8_transposed_scale_inv")
            needs = f"the matrix has {count} block{'s' if count > 1 else ''}"
        else:
            count = info.count  # creation says what is missing
    elif field in _LEFT:
        dtype, count = "f32", 1
        why, needs = f"{field} is f32", f"{field} is one"
    elif field in ("fp8", "fp8_transposed"):
        dtype, why = "u8", "codes are u8"
    elif field == "state":
        dtype, why = _type_of_state(row, what, types)
    elif field == "beside":
        name = NAMES["ptx_step_format"][row.format]
        dtype = _FORMATS[name][True]
        why = f"format {name!r} has {dtype} there"
    elif field == "absmax":
        block, dtype = _SMALL.get(NAMES["ptx_step_format"][row.format], (BLOCK, "f32"))
        count = -(-row.count // block)
        why, needs = f"an absmax is {dtype}", f"{needs}, in blocks of {block}: {count} of them"
    elif field == "update":
        columns = max(int(row.columns), 1)
        dtype, count = "f16", int(row.count) // columns * c.ptx_muon_pitch(columns) // 2
        why, needs = "an update is f16", f"{row.count // columns} rows with their ends have {count}"
    elif field == "step":
        dtype, count = "f32", 1
        why, needs = "a step count is f32", "a step count is one"
    if info.count is not None and info.count != count:
        raise InvalidError(f"{what}: {info.count} elements, and {needs}")
    if info.dtype is not None and dtype is not None and info.dtype != dtype:
        raise InvalidError(f"{what}: elements of type {info.dtype}, and {why}")


def row_of(cls: Any, tensor: Any, what: str, keeps: Keeps, types: OwnTypes) -> Any:
    """A tensor's row from a mapping, or from an array alone."""
    arrays = _ARRAYS[cls.__name__]
    if isinstance(tensor, cls):
        return tensor
    fields: Dict[str, Any] = dict(tensor) if isinstance(tensor, Mapping) else {next(iter(arrays)): tensor}
    kept: Keeps = {}
    found = taken(cls, fields, what, kept)
    for field, _, info in found:
        if field in arrays and info.count is not None:
            fields.setdefault("count", info.count)
        if field in arrays and info.dtype is not None:
            fields.setdefault(arrays[field], info.dtype)
    for field in ("count", "dtype"):
        if field not in fields:
            raise InvalidError(f"{what}: no {field}; an address alone does not tell it")
    if fields.get("weight", 1) == 0:
        raise InvalidError(f"{what}.weight: 0; \"uncounted\": True leaves a tensor out of the norm")
    row = struct(cls, fields, what, keeps)
    keeps.update(kept)
    for field, where, info in found:
        fits(row, field, where, info, types)
    return row


def list_of(what: str, values: Any) -> Any:
    if not isinstance(values, SequenceOf) or isinstance(values, (str, bytes)):
        raise InvalidError(f"{what}: a list of them is needed, not {values!r:.80}")
    return values


def rows_of(cls: Any, tensors: Sequence[Any], keeps: Keeps, types: OwnTypes = ()) -> Any:
    list_of("tensors", tensors)
    rows = (cls * len(tensors))()
    for k, tensor in enumerate(tensors):
        rows[k] = row_of(cls, tensor, f"tensors[{k}]", keeps, types)
    return rows


def _check_scalars(what: str, values: Any) -> None:
    for field in _AT.keys() & set(values) if isinstance(values, Mapping) else ():
        value = values[field]
        dtype = None if value is None or isinstance(value, int) else address_of(value, what + field).dtype
        if dtype is not None and dtype != _AT[field]:
            raise InvalidError(f"{what}{field}: elements of type {dtype}, and it is {_AT[field]}")


def params_of(cls: Any, tensors: Any, values: Mapping[str, Any], count_field: str,
            keeps: Keeps) -> Any:
    """The parameters of a plan. `count_field`: the number of group_max_norms."""
    norms = values.get("group_max_norms")
    if norms is not None and not hasattr(norms, "__len__"):
        raise InvalidError(f"group_max_norms: a list of numbers is needed, not {norms!r:.80}")
    if norms is not None and values.get(count_field, len(norms)) != len(norms):
        raise InvalidError(f"group_max_norms: {len(norms)} values, and {count_field} is "
                           f"{values[count_field]}")
    params = struct(cls, values, "", keeps)
    _check_scalars("", values)
    for k, group in enumerate(values.get("groups") or ()):
        _check_scalars(f"groups[{k}].", group)
    for k, clip in enumerate(values.get("qk_clips") or ()):
        _check_scalars(f"qk_clips[{k}].", clip)
    guards = values.get("guards")
    _check_scalars("guards.", guards)
    _check_scalars("guards.history.", guards.get("history") if isinstance(guards, Mapping) else None)
    if norms is not None:
        setattr(params, count_field, len(norms))
    if "any_address" not in values and any(map(on_host, keeps.values())):
        params.any_address = True
    keeps["tensors"] = tensors
    params.tensors, params.tensor_count = ctypes.addressof(tensors), len(tensors)
    return params
