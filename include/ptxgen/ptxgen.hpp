// SPDX-License-Identifier: MIT
/// ptxgen for C++17 and later: objects that free themselves, errors as exceptions, values with
/// operators (value.hpp), blocks as lambdas. Header-only, over the C functions, for gcc and clang.
///
///     ptx::builder b;
///     b.entry("saxpy", { 256 }, [&] {
///         ptx::value n = b.param<uint32_t>("n"), a = b.param<float>("a");
///         ptx::pointer x = b.param_ptr<float>("x"), y = b.param_ptr<float>("y");
///         b.grid_stride(n, [&](ptx::value i) { y[i] = ptx::fma(a, x[i], y[i]); });
///     });
///     ptx::module module(gpu, b.finish());
///
/// What C calls ptx_name(b, ...) is b.name(...), or ptx::name(...) where it begins with a value:
/// see docs/cpp.md.
///
/// Objects can be moved and not copied, convert to the pointer that the C functions take, and are
/// freed in reverse order of their declaration, as the C functions ask. A moved-from object is
/// empty, and a use of an empty object throws (object.hpp); so does one of a value, variable or
/// pointer that outlives its builder. Threads may use an object as they may use the C object in it:
/// a builder and its values from one thread at a time, say.
///
/// Errors: what fails throws ptx::error with the message of the C function; a builder keeps its
/// first error, and builder::finish() throws it. An exception that leaves a body is such an error,
/// because the block stays open. Without exceptions (-fno-exceptions) objects are empty, functions
/// return the status, finish() returns NULL, and messages are those of C. Errors of a builder name
/// the caller's file and line.
///
/// The C functions and macros take these objects: ptx_barrier(b), ptx_if (b, i < n) { ... }.
/// b.use() makes a ptx::value of their results. (Their macros with optional fields need C++20.)
#ifndef PTXGEN_PTXGEN_HPP
#define PTXGEN_PTXGEN_HPP

#if __cplusplus < 201703L
#error "ptxgen.hpp is for C++17 and later: compile with -std=c++17"
#else

#include <ptxgen/control.hpp>
#include <ptxgen/fragment.hpp>
#include <ptxgen/object.hpp>
#include <ptxgen/pointer.hpp>
#include <ptxgen/text.hpp>
#include <ptxgen/value.hpp>

#include <array>
#include <iterator>

namespace ptx
{

// ---- the builder --------------------------------------------------------------------------------

/// The threads of a block along x, y, z; zero: any number.
struct shape {
    uint32_t x = 0, y = 0, z = 0;
};

class builder : public control
{
  public:
    explicit builder(const ptx_builder_params &params = {})
        : control(ptx_builder_create(&params), false)
    {
    }
    explicit builder(ptx_target target) : builder(params_of(target)) {}
    /// For a function that gets a builder of C, as those of a rule: the object does not own it.
    static builder of(ptx_builder *b)
    {
        return builder(b, true);
    }
    // -- entries, parameters, arrays

    template <class Body>
    void entry(const char *name, shape block, Body &&body, place at = place::here())
    {
        ptx_entry_params params = {};
        params.name = name;
        params.block[0] = block.x, params.block[1] = block.y, params.block[2] = block.z;
        entry(params, std::forward<Body>(body), at);
    }
    template <class Body>
    void entry(const ptx_entry_params &params, Body &&body, place at = place::here())
    {
        const int block = emit_at(at, ptx_entry_begin, params);
        run("entry()", at, body);
        emit_at(at, ptx_entry_end, block);
    }
    value param(ptx_type type, const ptx_param_info &info, place at = place::here())
    {
        return use(emit_at(at, ptx_param_emit, type, info));
    }
    value param(ptx_type type, const char *name, place at = place::here())
    {
        return param(type, info_of(name), at);
    }
    template <class T> value param(const char *name, place at = place::here())
    {
        return param(type_of<T>(), info_of(name), at);
    }
    pointer param_ptr(ptx_type type, const ptx_param_info &info, place at = place::here())
    {
        return use(emit_at(at, ptx_param_ptr_emit, type, info));
    }
    pointer param_ptr(ptx_type type, const char *name, place at = place::here())
    {
        return param_ptr(type, info_of(name), at);
    }
    template <class T> pointer param_ptr(const char *name, place at = place::here())
    {
        return param_ptr(type_of<T>(), info_of(name), at);
    }
    pointer shared(ptx_type type, uint32_t count, place at = place::here())
    {
        return use(emit_at(at, ptx_shared, type, count));
    }
    template <class T> pointer shared(uint32_t count, place at = place::here())
    {
        return shared(type_of<T>(), count, at);
    }
    template <class T> pointer local(uint32_t count, place at = place::here())
    {
        return local(type_of<T>(), count, at);
    }
    pointer local(ptx_type type, uint32_t count, place at = place::here())
    {
        return use(emit_at(at, ptx_local, type, count));
    }
    /// The block's dynamic shared memory, whose size the launch gives: grid(n, stream, bytes).
    pointer shared_dynamic(ptx_type type, place at = place::here())
    {
        return use(emit_at(at, ptx_shared_dynamic, type));
    }
    template <class T> pointer shared_dynamic(place at = place::here())
    {
        return shared_dynamic(type_of<T>(), at);
    }
    /// An array of `count` elements that is passed by value.
    pointer param_array(ptx_type type, const char *name, uint32_t count, place at = place::here())
    {
        return use(emit_at(at, ptx_param_array, type, name, count));
    }
    template <class T>
    pointer param_array(const char *name, uint32_t count, place at = place::here())
    {
        return param_array(type_of<T>(), name, count, at);
    }

    // -- functions and named arrays of the module

    /// A function that gives `result`, or nothing (PTX_NONE). What the body returns is the
    /// function's result; a body that returns nothing calls return_value() itself.
    template <class Body>
    function func(const ptx_func_params &params, Body &&body, place at = place::here())
    {
        const int block = emit_at(at, ptx_func_begin, params);
        if constexpr (std::is_void<std::invoke_result_t<Body &>>::value)
            run("func()", at, body);
        else
            returned(at, run("func()", at, body));
        emit_at(at, ptx_func_end, block);
        return function(at_context(), params.name);
    }
    template <class Body>
    function func(const char *name, ptx_type result, Body &&body, place at = place::here())
    {
        ptx_func_params params = {};
        params.name = name;
        params.result = result;
        return func(params, std::forward<Body>(body), at);
    }
    template <class T, class Body>
    function func(const char *name, Body &&body, place at = place::here())
    {
        return func(name, type_of<T>(), std::forward<Body>(body), at);
    }
    template <class Body> function func(const char *name, Body &&body, place at = place::here())
    {
        return func(name, PTX_NONE, std::forward<Body>(body), at);
    }
    void return_value(expr x)
    {
        const place at = x.at();
        returned(at, std::move(x));
    }
    template <class... Argument> value call(words name, Argument &&...x)
    {
        const auto values = emit_all(at_context(), name.at, std::forward<Argument>(x)...);
        return use(emit_at(name.at, ptx_call_emit, name.text, values.data(), values.size()));
    }
    /// The same for a function with several results, in params.results: its lanes.
    template <class... Argument> vec call_many(words name, Argument &&...x)
    {
        const auto values = emit_all(at_context(), name.at, std::forward<Argument>(x)...);
        return use(emit_at(name.at, ptx_call_many_emit, name.text, values.data(), values.size()));
    }
    template <class... Argument> void return_values(expr first, Argument &&...x)
    {
        const place at = first.at();
        const auto values =
            emit_all(at_context(), at, std::move(first), std::forward<Argument>(x)...);
        emit_at(at, ptx_return_values_emit, values.data(), values.size());
    }
    /// An array in constant memory: b.const_("taps", { 0.25f, 0.5f, 0.25f }), of braces, an array
    /// of C or C++, or a vector.
    pointer const_(ptx_type type, const ptx_data_params &params, place at = place::here())
    {
        return use(emit_at(at, ptx_const_emit, type, params));
    }
    template <class T>
    pointer const_(const char *name, std::initializer_list<T> values, place at = place::here())
    {
        return const_(type_of<T>(), data_of(name, values.begin(), values.size()), at);
    }
    template <class Range, class T = decltype(*std::data(std::declval<const Range &>()))>
    pointer const_(const char *name, const Range &values, place at = place::here())
    {
        return const_(type_of<std::decay_t<T>>(),
                      data_of(name, std::data(values), std::size(values)), at);
    }
    /// The same in global memory, which keeps what kernels store; or `count` zeros.
    pointer global(ptx_type type, const ptx_data_params &params, place at = place::here())
    {
        return use(emit_at(at, ptx_global_emit, type, params));
    }
    template <class T> pointer global(const char *name, uint32_t count, place at = place::here())
    {
        ptx_data_params params = {};
        params.name = name;
        params.count = count;
        return global(type_of<T>(), params, at);
    }
    template <class T>
    pointer global(const char *name, std::initializer_list<T> values, place at = place::here())
    {
        return global(type_of<T>(), data_of(name, values.begin(), values.size()), at);
    }
    template <class Range, class T = decltype(*std::data(std::declval<const Range &>()))>
    pointer global(const char *name, const Range &values, place at = place::here())
    {
        return global(type_of<std::decay_t<T>>(),
                      data_of(name, std::data(values), std::size(values)), at);
    }
    pointer string(const char *text, place at = place::here())
    {
        return use(emit_at(at, ptx_string, text));
    }

    // -- messages

    /// b.printf("row %u: %g\n", row, x)
    template <class... Argument> void printf(words format, Argument &&...x)
    {
        const auto values = emit_all(at_context(), format.at, std::forward<Argument>(x)...);
        emit_at(format.at, ptx_printf_emit, format.text, values.data(), values.size());
    }
    /// b.assert_(i < n, "i < n")
    void assert_(expr cond, const char *text)
    {
        ptx_message_params params = {};
        params.text = text;
        assert_(std::move(cond), params);
    }
    void assert_(expr cond, const ptx_message_params &params)
    {
        const place at = cond.at();
        const ptx_val tested = cond.emit();
        emit_at(at, ptx_assert_emit, tested, params);
    }
    void trap_message(const char *text, place at = place::here())
    {
        ptx_message_params params = {};
        params.text = text;
        emit_at(at, ptx_trap_message_emit, params);
    }
    void comment(const char *text, place at = place::here())
    {
        located here(at_context(), at);
        (ptx_comment)(get(), "%s", text);
    }

    // -- text: see text.hpp

    /// The single result, or no value.
    value asm_(text &&x, place at = place::here())
    {
        return use(prepare(x, at) ? emit_at(at, ptx_asm_emit, x.params_) : ptx_val());
    }
    /// auto [lane, found] = b.asm_many<2>(...): all results, of which there are n.
    template <size_t n> std::array<value, n> asm_many(text &&x, place at = place::here())
    {
        ptx_val results[PTX_ASM_MAX_RESULTS] = {};
        std::array<value, n> values;

        static_assert(n >= 1 && n <= PTX_ASM_MAX_RESULTS, "a text has 1 to 16 results");
        if (prepare(x, at)) {
            if (x.results_ == n)
                emit_at(at, ptx_asm_many_emit, results, x.params_);
            else
                refuse(at, "ptx_asm_many: the text has another number of results");
        }
        for (size_t k = 0; k < n; k++)
            values[k] = use(results[k]);
        return values;
    }
    void asm_module(const ptx_asm_module_params &params, place at = place::here())
    {
        emit_at(at, ptx_asm_module_emit, params);
    }
    void asm_module(const char *text, std::initializer_list<const char *> declares,
                    place at = place::here())
    {
        ptx_asm_module_params params = {};
        size_t k = 0;

        params.text = text;
        if (declares.size() > PTX_ASM_MAX_NAMES)
            refuse(at, "ptx_asm_module: a text declares at most 16 names");
        else
            for (const char *name : declares)
                params.declares[k++] = name;
        emit_at(at, ptx_asm_module_emit, params);
    }
    template <class T> pointer asm_ptr(ptx_space space, const char *name, place at = place::here())
    {
        return asm_ptr(type_of<T>(), space, name, at);
    }
    pointer asm_ptr(ptx_type type, ptx_space space, const char *name, place at = place::here())
    {
        return use(emit_at(at, ptx_asm_ptr, type, space, name));
    }

    // -- matrices: see fragment.hpp

    /// A fragment of C; its type is that of x: fragment_fill(0.0f) is f32.
    fragment fragment_fill(expr x)
    {
        const place at = x.at();
        const ptx_val filled = x.emit();
        return use(emit_at(at, ptx_fragment_fill, filled));
    }
    template <class T, class = std::enable_if_t<std::is_arithmetic<T>::value>>
    fragment fragment_fill(T x, place at = place::here())
    {
        return fragment_fill(expr(constant(x), at));
    }
    fragment fragment_from(ptx_fragment_role role, ptx_type type, unsigned k, const ptx_vec &words,
                           place at = place::here())
    {
        return use(emit_at(at, ptx_fragment_from, role, type, k, words));
    }
    fragment fragment_load(ptx_fragment_role role, ptx_type type, unsigned k, const pointer_use &p,
                           expr stride, bool trans = false)
    {
        ptx_fragment_load_params how = {};
        require_order(at_context(), p.at, 0u + p.emitting + stride.emitting());
        how.stride = stride.emit();
        how.trans = trans;
        return use(emit_at(p.at, ptx_fragment_load_emit, role, type, k, p.p, how));
    }
    matrix matrix_from(ptx_fragment_role role, ptx_type type, unsigned k, const pointer_use &p,
                       expr stride, bool trans = false)
    {
        ptx_fragment_load_params how = {};
        require_order(at_context(), p.at, 0u + p.emitting + stride.emitting());
        how.stride = stride.emit();
        how.trans = trans;
        return matrix(at_context(), emit_at(p.at, ptx_matrix_from_emit, role, type, k, p.p, how));
    }
    fragment_variable var(const fragment_use &first)
    {
        return fragment_variable(at_context(), emit_at(first.at, ptx_fragment_var, first.x));
    }
    vec ldmatrix(const pointer_use &p, unsigned tiles, bool trans = false)
    {
        ptx_ldmatrix_params how = {};
        how.tiles = tiles;
        how.trans = trans;
        return use(emit_at(p.at, ptx_ldmatrix_emit, p.p, how));
    }
    void stmatrix(const pointer_use &p, const ptx_vec &x, bool trans = false)
    {
        ptx_stmatrix_params how = {};
        how.x = x;
        how.trans = trans;
        emit_at(p.at, ptx_stmatrix_emit, p.p, how);
    }
    /// Copies 4, 8 or 16 bytes while the thread goes on.
    void cp_async(const pointer_use &to, const pointer_use &from, unsigned bytes,
                  ptx_cp_async_params how = {})
    {
        require_order(at_context(), to.at, 0u + to.emitting + from.emitting);
        how.bytes = bytes;
        emit_at(to.at, ptx_cp_async_emit, to.p, from.p, how);
    }

    // -- values

    /// A variable with a first value, whose type it has: var(0.0f) is f32.
    variable var(expr first)
    {
        const ptx_val x = first.emit();
        located here(at_context(), first.at());
        return variable(at_context(), (ptx_var)(get(), x));
    }
    template <class T, class = std::enable_if_t<std::is_arithmetic<T>::value>>
    variable var(T first, place at = place::here())
    {
        return var(expr(constant(first), at));
    }
    template <class T> static ptx_val constant(T x)
    {
        constexpr ptx_type type = type_of<T>();
        if constexpr (std::is_floating_point<T>::value)
            return type == PTX_F32 ? ptx_f32(x) : ptx_f64(x);
        else
            return ptx_imm_bits(type, static_cast<std::make_unsigned_t<T>>(x));
    }
// Special registers, and the index of a thread in the grid.
#define PTXGEN_INDEX(name, ...)                                                                    \
    expr name(ptx_axis axis = PTX_X, place at = place::here())                                     \
    {                                                                                              \
        return expr::special(at_context(), (ptx_##name), axis, at);                                \
    }
    PTX_SPECIAL_VECTORS(PTXGEN_INDEX)
    PTXGEN_INDEX(global_index, )
    PTXGEN_INDEX(global_index_wide, )
#undef PTXGEN_INDEX
#define PTXGEN_INDEX(name, ...)                                                                    \
    expr name(place at = place::here())                                                            \
    {                                                                                              \
        return expr::special(at_context(), (ptx_##name), at);                                      \
    }
    PTX_SPECIAL_SCALARS(PTXGEN_INDEX)
    PTXGEN_INDEX(activemask, )
#undef PTXGEN_INDEX
    /// A row of ops.h with its modifiers: how.round, how.ftz, how.sat.
    value op(ptx_opcode op, operands x, ptx_op_params how = {}, place at = place::here())
    {
        ptx_val *const to[] = { &how.x, &how.y, &how.z, &how.w };
        if (x.count() > 4)
            refuse(at, "ptx_op: an instruction has at most 4 operands");
        for (size_t k = 0; k < x.count() && k < 4; k++)
            *to[k] = x.emit(k);
        how.op = op;
        return use(emit_at(at, ptx_op_emit, how));
    }
    /// ptx_shfl() with how.mask and how.width.
    value shfl(ptx_shfl_mode mode, expr x, expr lane, ptx_shfl_params how)
    {
        require_order(at_context(), x.at(), x.emitting() + lane.emitting());
        const ptx_val read = x.emit();
        how.lane = lane.emit();
        return use(emit_at(x.at(), ptx_shfl_emit, mode, read, how));
    }
    value cvt_pack(ptx_type type, expr lo, expr hi)
    {
        require_order(at_context(), lo.at(), lo.emitting() + hi.emitting());
        const ptx_val low = lo.emit(), high = hi.emit();
        return use(emit_at(lo.at(), ptx_cvt_pack, type, low, high));
    }
    value pack(ptx_type type, operands lanes, place at = place::here())
    {
        const ptx_vec x = lanes.emit();
        return use(emit_at(at, ptx_pack, type, x));
    }
    value pack(ptx_type type, const vec &lanes, place at = place::here())
    {
        return use(emit_at(at, ptx_pack, type, static_cast<const ptx_vec &>(lanes)));
    }
    vec unpack(ptx_type type, expr x)
    {
        const ptx_val split = x.emit();
        return use(emit_at(x.at(), ptx_unpack, type, split));
    }
    template <class T> pointer ptr_from(ptx_space space, expr address)
    {
        return ptr_from(type_of<T>(), space, std::move(address));
    }
    pointer ptr_from(ptx_type type, ptx_space space, expr address)
    {
        const ptx_val base = address.emit();
        return use(emit_at(address.at(), ptx_ptr_from, type, space, base));
    }

  private:
    builder(ptx_builder *b, bool borrowed) : control(b, borrowed) {}
    void returned(place at, expr x)
    {
        const ptx_val result = x.emit();
        emit_at(at, ptx_return_value, result);
    }
    // Emits the operands of a text, which is used up. False: there is an error.
    bool prepare(text &x, place at)
    {
        const char *const wrong = x.prepare(at_context(), at);
        if (wrong)
            refuse(at, (std::string("ptx_asm: ") + wrong).c_str());
        return !wrong;
    }
    template <class T>
    static ptx_data_params data_of(const char *name, const T *values, size_t count)
    {
        ptx_data_params params = {};
        params.name = name;
        params.values = values;
        params.bytes = count * sizeof(T);
        return params;
    }
    static ptx_builder_params params_of(ptx_target target)
    {
        ptx_builder_params params = {};
        params.target = target;
        return params;
    }
    static ptx_param_info info_of(const char *name)
    {
        ptx_param_info info = {};
        info.name = name;
        return info;
    }
};

} // namespace ptx

// A C function that takes an array takes one of ptx_val or ptx_fragment: ptx_val x[4]. Here, behind
// the last use of a function's name without a call.
#define PTXGEN_ARRAYS_OF_C(function)                                                               \
    template <class... Argument>                                                                   \
    std::enable_if_t<(ptx::is_larger_array<Argument> || ...)>(function)(ptx_builder *,             \
                                                                        Argument && ...) = delete;
PTXGEN_ARRAYS_OF_C(ptx_words_add)
PTXGEN_ARRAYS_OF_C(ptx_words_sub)
PTXGEN_ARRAYS_OF_C(ptx_words_mad)
PTXGEN_ARRAYS_OF_C(ptx_call_emit)
PTXGEN_ARRAYS_OF_C(ptx_call_many_emit)
PTXGEN_ARRAYS_OF_C(ptx_return_values_emit)
PTXGEN_ARRAYS_OF_C(ptx_printf_emit)
PTXGEN_ARRAYS_OF_C(ptx_asm_many_emit)
PTXGEN_ARRAYS_OF_C(ptx_matrix_load)
PTXGEN_ARRAYS_OF_C(ptx_matrix_store)
PTXGEN_ARRAYS_OF_C(ptx_fragment_to_a)
#undef PTXGEN_ARRAYS_OF_C

#endif
#endif
