// SPDX-License-Identifier: MIT
/// Part of ptxgen.hpp: blocks, jumps and barriers, as of control.h and threads.h. The rules of
/// ptxgen.hpp apply.
#ifndef PTXGEN_CONTROL_HPP
#define PTXGEN_CONTROL_HPP

#include <ptxgen/emitter.hpp>

namespace ptx
{

/// The calls of ptx::builder that say in what order threads execute. The body of a block is a
/// lambda, which gets the counter of a loop.
class control : public emitter
{
  public:
    /// What may follow an if: b.if_(x < 0, ...).else_if(x < 9, ...).else_(...). A condition is
    /// emitted where those before it are false.
    class chain
    {
      public:
        explicit chain(control *b) : b_(b) {}
        template <class Body> chain else_if(expr cond, Body &&body)
        {
            const place at = cond.at();
            const int block = b_->emit_at(at, ptx_else_if_begin);
            const ptx_val tested = cond.emit();
            b_->emit_at(at, ptx_else_if_test, tested);
            b_->run("else_if()", at, body);
            b_->emit_at(at, ptx_else_if_end, block);
            return *this;
        }
        template <class Body> void else_(Body &&body, place at = place::here())
        {
            const int block = b_->emit_at(at, ptx_else_begin);
            b_->run("else_()", at, body);
            b_->emit_at(at, ptx_else_end, block);
        }

      private:
        control *b_;
    };
    template <class Body> chain if_(expr cond, Body &&body)
    {
        const place at = cond.at();
        const ptx_val tested = cond.emit();
        const int block = emit_at(at, ptx_if_begin, tested);
        run("if_()", at, body);
        emit_at(at, ptx_if_end, block);
        return chain(this);
    }
    template <class Body> void for_(expr lo, expr hi, expr step, Body &&body)
    {
        counted("for_()", ptx_for_begin, ptx_for_end, { &lo, &hi, &step }, body);
    }
    /// The same values from the greatest to lo, as ptx_for_down().
    template <class Body> void for_down(expr hi, expr lo, expr step, Body &&body)
    {
        counted("for_down()", ptx_for_down_begin, ptx_for_down_end, { &hi, &lo, &step }, body);
    }
    template <class Body> void grid_stride(expr n, Body &&body)
    {
        const ptx_val limit = n.emit();
        const ptx_val i = emit_at(n.at(), ptx_grid_stride_begin, limit);
        run("grid_stride()", n.at(), body, use(i));
        emit_at(n.at(), ptx_grid_stride_end, i);
    }
    /// The condition is emitted at the head of the loop.
    template <class Body> void while_(expr cond, Body &&body)
    {
        const place at = cond.at();
        const int block = emit_at(at, ptx_while_begin);
        const ptx_val tested = cond.emit();
        emit_at(at, ptx_while_test, tested);
        run("while_()", at, body);
        emit_at(at, ptx_while_end, block);
    }
    template <class Body> void loop(Body &&body, place at = place::here())
    {
        const int block = emit_at(at, ptx_loop_begin);
        run("loop()", at, body);
        emit_at(at, ptx_loop_end, block);
    }
    /// See ptx_inlined() of control.h. Returns what the body returns; an expression is emitted in
    /// the block, and is a value.
    template <class Body>
    kept<std::invoke_result_t<Body &>> inlined(const char *name, Body &&body,
                                               place at = place::here())
    {
        using result = kept<std::invoke_result_t<Body &>>;
        const int block = emit_at(at, ptx_inlined_begin, name);
        if constexpr (std::is_void<result>::value) {
            run("inlined()", at, body);
            emit_at(at, ptx_inlined_end, block);
        } else {
            result x = run("inlined()", at, body);
            emit_at(at, ptx_inlined_end, block);
            return x;
        }
    }
#define PTXGEN_JUMP(name, function)                                                                \
    void name(place at = place::here())                                                            \
    {                                                                                              \
        emit_at(at, function);                                                                     \
    }                                                                                              \
    void name##if (expr cond)                                                                      \
    {                                                                                              \
        const ptx_val tested = cond.emit();                                                        \
        emit_at(cond.at(), function##_if, tested);                                                 \
    }
    PTXGEN_JUMP(break_, ptx_break)
    PTXGEN_JUMP(continue_, ptx_continue)
    PTXGEN_JUMP(return_, ptx_return)
#undef PTXGEN_JUMP
// Calls without operands, and of one value.
#define PTXGEN_CALL(name)                                                                          \
    void name(place at = place::here())                                                            \
    {                                                                                              \
        emit_at(at, ptx_##name);                                                                   \
    }
    PTXGEN_CALL(barrier)
    PTXGEN_CALL(trap)
    PTXGEN_CALL(griddepcontrol_wait)
    PTXGEN_CALL(griddepcontrol_launch_dependents)
    PTXGEN_CALL(cp_async_commit)
    PTXGEN_CALL(cp_async_wait_all)
#undef PTXGEN_CALL
#define PTXGEN_CALL(name)                                                                          \
    void name(expr x)                                                                              \
    {                                                                                              \
        const ptx_val operand = x.emit();                                                          \
        emit_at(x.at(), ptx_##name, operand);                                                      \
    }
    PTXGEN_CALL(nanosleep)
    PTXGEN_CALL(barrier_warp)
    PTXGEN_CALL(assume_warp_uniform)
#undef PTXGEN_CALL
#define PTXGEN_CALL(name)                                                                          \
    value name(expr x)                                                                             \
    {                                                                                              \
        const ptx_val operand = x.emit();                                                          \
        return use(emit_at(x.at(), ptx_##name, operand));                                          \
    }
    PTXGEN_CALL(barrier_all)
    PTXGEN_CALL(barrier_any)
    PTXGEN_CALL(barrier_count)
#undef PTXGEN_CALL
    void barrier_named(unsigned id, unsigned threads, place at = place::here())
    {
        emit_at(at, ptx_barrier_named, id, threads);
    }
    void barrier_arrive(unsigned id, unsigned threads, place at = place::here())
    {
        emit_at(at, ptx_barrier_arrive, id, threads);
    }
    void cp_async_wait(unsigned pending, place at = place::here())
    {
        emit_at(at, ptx_cp_async_wait, pending);
    }
    void fence(ptx_order order, ptx_scope scope, place at = place::here())
    {
        emit_at(at, ptx_fence, order, scope);
    }
    ptx_label label_create(const char *name, place at = place::here())
    {
        return emit_at(at, ptx_label_create, name);
    }
    void label_place(ptx_label label, place at = place::here())
    {
        emit_at(at, ptx_label_place, label);
    }
    void branch(ptx_label label, place at = place::here())
    {
        emit_at(at, ptx_branch, label);
    }
    void branch_if(expr cond, ptx_label label)
    {
        const ptx_val tested = cond.emit();
        emit_at(cond.at(), ptx_branch_if, tested, label);
    }

  protected:
    control(ptx_builder *b, bool borrowed) : emitter(b, borrowed) {}

  private:
    template <class Body>
    void counted(const char *name, expr::call3 begin, ptx_val (*end)(ptx_builder *, ptx_val),
                 std::initializer_list<expr *> bounds, Body &&body)
    {
        static_assert(std::is_invocable<Body &, value>::value,
                      "the body of a loop takes its number: [&](ptx::value i) { ... }");
        const place at = (*bounds.begin())->at();
        ptx_val x[3];
        unsigned n = 0, emitting = 0;

        for (expr *bound : bounds)
            emitting += bound->emitting();
        require_order(at_context(), at, emitting);
        for (expr *bound : bounds)
            x[n++] = bound->emit();
        const ptx_val i = emit_at(at, begin, x[0], x[1], x[2]);
        run(name, at, body, use(i));
        emit_at(at, end, i);
    }
};

} // namespace ptx

#endif
