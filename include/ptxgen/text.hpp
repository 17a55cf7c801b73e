// SPDX-License-Identifier: MIT
/// Part of ptxgen.hpp: PTX text with operands, as of asm.h. The rules of ptxgen.hpp apply.
///
///     ptx::value d = b.asm_(ptx::text("dp2a.lo.s32.u32 %0, %1, %2, %3;")
///                               .result<int>().in(x, y, sum).isa(60).sm(70).pure());
#ifndef PTXGEN_TEXT_HPP
#define PTXGEN_TEXT_HPP

#include <ptxgen/pointer.hpp>

namespace ptx
{

/// A text and what asm.h lets a caller say of it, for builder::asm_(), which uses it once. `in` is
/// emitted from left to right, where asm_() is called.
class text
{
  public:
    explicit text(const char *statements)
    {
        params_.text = statements;
    }
    text &&result(ptx_type type) &&
    {
        return std::move(*this).add(params_.result, results_, type);
    }
    template <class T> text &&result() &&
    {
        return std::move(*this).result(type_of<T>());
    }
    text &&inout(const variable &x) &&
    {
        return std::move(*this).add(params_.inout, inouts_, static_cast<const ptx_val &>(x));
    }
    template <class... Operand> text &&in(Operand &&...x) &&
    {
        unsigned emitting = 0;

        (in_.push_back(expr(std::forward<Operand>(x))), ...);
        for (size_t k = in_.size() - sizeof...(x); k < in_.size(); k++)
            emitting += in_[k].emitting();
        emitting_ = emitting > emitting_ ? emitting : emitting_; // C++ orders the calls of in()
        return std::move(*this);
    }
    text &&at(const pointer_use &p) &&
    {
        return std::move(*this).add(params_.at, addresses_, p.p);
    }
    text &&isa(int version) &&
    {
        params_.isa = version;
        return std::move(*this);
    }
    text &&sm(int target, char suffix = 0) &&
    {
        params_.sm = target;
        params_.suffix = suffix;
        return std::move(*this);
    }
    text &&pure() &&
    {
        params_.pure = true;
        return std::move(*this);
    }
    text &&reads(ptx_memory memory) &&
    {
        params_.reads = memory;
        return std::move(*this);
    }
    text &&writes(ptx_memory memory) &&
    {
        params_.writes = memory;
        return std::move(*this);
    }
    text &&convergence(ptx_convergence threads) &&
    {
        params_.convergence = threads;
        return std::move(*this);
    }
    text &&divergence(ptx_divergence results) &&
    {
        params_.divergence = results;
        return std::move(*this);
    }

  private:
    friend class builder;
    template <class T, size_t n> text &&add(T (&to)[n], size_t &count, const T &x) &&
    {
        if (count < n)
            to[count] = x;
        count++;
        return std::move(*this);
    }
    // Emits the operands. NULL, or what is wrong with the lists, which end for C at what is not
    // set.
    const char *prepare(const owner &c, place at)
    {
        if (used_)
            return "the text was used before: asm_() takes it once";
        used_ = true;
        if (results_ > PTX_ASM_MAX_RESULTS || inouts_ > PTX_ASM_MAX_INOUTS ||
            in_.size() > PTX_ASM_MAX_INPUTS || addresses_ > PTX_ASM_MAX_ADDRESSES)
            return "the text has more operands than ptx_asm() takes: 16 results, 64 variables, 32 "
                   "inputs, 4 addresses";
        require_order(c, at, emitting_);
        for (size_t k = 0; k < in_.size(); k++) {
            params_.in[k] = in_[k].emit();
            if (params_.in[k].kind == PTX_KIND_POISON)
                return "an input of the text was never set";
        }
        for (size_t k = 0; k < results_; k++)
            if (params_.result[k] == PTX_NONE)
                return "a result of the text has no type";
        for (size_t k = 0; k < addresses_; k++)
            if (params_.at[k].type == PTX_NONE)
                return "an address of the text is no pointer";
        return nullptr;
    }

    ptx_asm_params params_ = {};
    std::vector<expr> in_;
    size_t results_ = 0, inouts_ = 0, addresses_ = 0;
    unsigned emitting_ = 0;
    bool used_ = false;
};

} // namespace ptx

#endif
