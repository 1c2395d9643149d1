#include "kernels/measure/problem.h"

#include <fmt/format.h>

#include "ptxbuilder/error.h"

namespace ptxbuilder::bench {

std::string GemmProblem::layout() const {
  std::string letters;
  letters += b_k_major ? 'T' : 'N';
  letters += a_k_major ? 'N' : 'T';
  return letters;
}

void GemmProblem::set_layout(const std::string& letters) {
  if (letters != "TN" && letters != "NN" && letters != "NT" && letters != "TT")
    throw Error(
        fmt::format("layout '{}' is not one of TN (both k-major), NN (B stored as [k,n]), NT (A stored as "
                    "[k,m], B as [k,n]), TT (A stored as [k,m])",
                    letters));
  b_k_major = letters[0] == 'T';
  a_k_major = letters[1] == 'N';
}

void GemmProblem::accumulate_slowly() {
  if (!is_fp8(a))
    throw Error(fmt::format(
        "slow accumulation of {} is not possible: it is for e4m3 and e5m2, whose sums tensor cores round; "
        "sums of other types are exact enough without it: leave it out, or choose one of these types",
        name(a)));
  fast_accumulation = false;
}

DType usual_output(DType input) {
  if (input == DType::s8) return DType::s32;
  if (input == DType::tf32) return DType::f32;
  return size_of(input) == 2 ? input : DType::bf16;
}

std::string size_text(const GemmProblem& p) { return fmt::format("{}x{}x{}", p.m, p.n, p.k); }

std::string type_text(const GemmProblem& p) {
  std::string inputs(name(p.a));
  if (p.b != p.a) inputs += fmt::format(" x {}", name(p.b));
  const bool fp8 = is_fp8(p.a);
  return fmt::format("{} -> {} {}{}", inputs, name(p.d), p.layout(),
                     !fp8                  ? ""
                     : p.fast_accumulation ? ", fast accumulation"
                                           : ", slow accumulation");
}

Axis axis_of(const GemmProblem& p) {
  return {fmt::format("{} x {} x K", p.m, p.n), fmt::format("{}", p.k), "K", "M x N x K", false};
}

}  // namespace ptxbuilder::bench
