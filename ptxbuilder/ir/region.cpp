#include "ptxbuilder/ir/region.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "ptxbuilder/ir/open_body.h"
#include "ptxbuilder/ir/state.h"

namespace ptxbuilder::detail {
namespace {

thread_local const OpenBody* innermost_body = nullptr;

// All threads share the counters, because a kernel may be constructed on one thread and finished on another.
std::atomic<uint32_t> bodies = 0, kernels = 0;

constexpr uint32_t kNumbers = (uint32_t{1} << 30) - 1;

[[noreturn]] void refuse_divided(std::string_view operation, std::string_view whole,
                                 std::string_view cure = "call it outside") {
  const OpenBody* body = innermost_body;
  while (body->outer() && body->threads().may.none()) body = body->outer();
  const ThreadSet& threads = body->threads();
  while (body->outer() && body->outer()->threads() == threads) body = body->outer();
  throw Error(fmt::format("{}: {} must call this together, but in the {} {}; {}", operation, whole,
                          body->describe(), threads.describe(), cure));
}

// Records the conditions of a body that has passed a check, so that the check can be repeated at the end of
// the surrounding loop.
void judge_at_end_of_loop(std::string_view operation, std::string_view whole) {
  Builder::State& s = Builder::current().state();
  if (s.loops == 0) return;
  for (const OpenBody* body = innermost_body; body; body = body->outer())
    for (const llvm::Value* condition : body->conditions()) {
      if (std::any_of(s.judgements.begin(), s.judgements.end(),
                      [&](const Judgement& j) { return j.condition == condition; }))
        continue;
      s.judgements.push_back(
          {condition, s.nearest_line(),
           fmt::format("{}: {} must call this together, but from the second iteration on threads may enter "
                       "the {} without the others, since a later line of the loop changes the condition",
                       operation, whole, body->describe())});
    }
}

// Returns the line of the last code built before an assignment, because the assignment itself has no source
// line.
Where line_before() {
  const Builder::State& s = Builder::current().state();
  return !callers::open_line && s.constant_line ? s.constant_line : s.nearest_line();
}

Builder::State* state_of_current() noexcept {
  try {
    return &Builder::current({}).state();
  } catch (const Error&) {  // no kernel is under construction
    return nullptr;
  }
}

}  // namespace

OpenBody::OpenBody(std::string_view construct, Where where, const ThreadSet& threads,
                   std::vector<const llvm::Value*> conditions)
    : kernel_(Builder::current().state()),
      construct_(construct),
      where_(where),
      outer_(kernel_.innermost),
      number_(1 + bodies++ % kNumbers),
      threads_(outer_ ? outer_->threads_ & threads : threads),
      conditions_(std::move(conditions)) {
  kernel_.innermost = this;
  enter(this, kernel_.number);
}

OpenBody::~OpenBody() {
  kernel_.innermost = outer_;
  if (innermost_body == this) enter(outer_, kernel_.number);
}

LoopJudgements::LoopJudgements(Builder::State& kernel) : kernel_(kernel), first_(kernel.judgements.size()) {
  ++kernel_.loops;
}

LoopJudgements::~LoopJudgements() {
  if (--kernel_.loops == 0) kernel_.judgements.clear();
}

void LoopJudgements::end() const {
  for (size_t i = first_; i < kernel_.judgements.size(); ++i)
    if (const Judgement& judgement = kernel_.judgements[i]; divides_warpgroups(judgement.condition))
      throw Error(judgement.where, judgement.otherwise);
}

const OpenBody* OpenBody::innermost() { return innermost_body; }

std::string OpenBody::describe() const { return fmt::format("{} at {}", construct_, to_string(where_)); }

bool Region::is_being_emitted(uint32_t body) noexcept {
  for (const OpenBody* open = innermost_body; open; open = open->outer())
    if (open->number() == body) return true;
  return false;
}

uint32_t new_kernel_number() { return Region::kKernel | kernels++ % kNumbers; }

void enter(const OpenBody* innermost, uint32_t kernel) {
  innermost_body = innermost;
  open_body = innermost ? innermost->number() : kernel;
}

void Region::assign(const Region& other) {
  const uint32_t kernel = Builder::current().state().number;
  const bool is_outside = (body_ & kKernel) ? body() == kernel : is_being_emitted(body());
  if (is_outside && body() != open_body)
    throw Error(
        line_before(),
        fmt::format("assignment to a value that was made outside of the body of the {}: the body is "
                    "built only once, so the assignment would apply to every thread and every "
                    "iteration; make the value a Var, as in Var<u32> x(0u), which the kernel can change",
                    innermost_body->describe()));
  body_ = other.copied();
}

void Region::destroy() const noexcept {
  if (!innermost_body || body_ & kMoved) return;
  Builder::State* s = state_of_current();
  if (!s || s->refusal || ((body_ & kKernel) ? body_ != s->number : !is_being_emitted(body_))) return;
  try {
    s->refusal.emplace(
        line_before(),
        fmt::format("{}: a value that was made outside of the body of the {} is replaced or destroyed in it, "
                    "for example by assigning a container: the body is built only once, so this would apply "
                    "to every thread and every iteration; keep values that change in a Var, and give the "
                    "body a copy of values that it consumes",
                    s->signature.kernel, innermost_body->describe()));
  } catch (...) {  // out of memory: the next allocation reports it
  }
}

void Region::has_ended(const llvm::Value* handle) {
  Builder::State& s = Builder::current().state();
  Where made;
  if (auto* instruction = llvm::dyn_cast<llvm::Instruction>(handle)) made = s.where_of(*instruction);
  if (auto constant = s.constants.find(handle); constant != s.constants.end()) made = constant->second;
  throw Error(s.nearest_line(), used_outside(s.signature.kernel, made));
}

void variable_was_moved() {
  throw Error(
      line_before(),
      "a Var is used after it was moved from: std::move, std::swap and std::exchange move the variable, not "
      "its value; read its value, as in u32 old = v, or exchange two values with swap(a, b)");
}

void Region::variable_has_ended() {
  throw Error(line_before(),
              "a Var is used outside the branch or loop that makes it: only the threads and iterations that "
              "entered have set it; make it before");
}

std::string used_outside(std::string_view kernel, Where made) {
  return fmt::format("{}: a value{} is used outside the branch or loop that makes it; carry it in a Var",
                     kernel, made ? " made at " + to_string(made) : "");
}

void check_whole_warpgroups(std::string_view operation) {
  constexpr std::string_view kWhole = "all 128 threads of a warpgroup";
  if (!innermost_body) return;
  if (innermost_body->threads().divides_warpgroups()) refuse_divided(operation, kWhole);
  judge_at_end_of_loop(operation, kWhole);
}

void check_all_threads(std::string_view operation, int threads) {
  constexpr std::string_view kWhole = "all threads of the CTA";
  if (!innermost_body) return;
  const ThreadSet& in = innermost_body->threads();
  bool all = !in.elected && !in.may_divide;
  for (size_t t = 0; t < static_cast<size_t>(threads); ++t) all = all && in.may[t];
  if (!all) refuse_divided(operation, kWhole);
  judge_at_end_of_loop(operation, kWhole);
}

void check_one_thread(std::string_view operation, int threads, std::string_view advice) {
  ThreadSet in = innermost_body ? innermost_body->threads() : ThreadSet::all();
  if (!in.exact || in.elected || in.may_divide) return;
  for (size_t t = static_cast<size_t>(threads); t < in.may.size(); ++t) in.may[t] = false;
  if (in.may.count() > 1)
    throw Error(fmt::format("{}: only one thread may call this, but {} threads do; {}", operation,
                            in.may.count(), advice));
}

void check_whole_warps(std::string_view operation) {
  if (innermost_body && innermost_body->threads().divides_warps())
    refuse_divided(operation, "all lanes of that warp",
                   "if_(elect_sync(0xffffffff), ...) elects a lane of each whole warp that enters");
}

}  // namespace ptxbuilder::detail
