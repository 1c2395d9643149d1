#include "ptxbuilder/ir/region.h"

#include <fmt/format.h>

#include <atomic>

#include "ptxbuilder/ir/open_body.h"
#include "ptxbuilder/ir/state.h"

namespace ptxbuilder::detail {
namespace {

thread_local const OpenBody* innermost_body = nullptr;

// Of all threads, since a kernel may be finished on another one than where it was begun.
std::atomic<uint32_t> bodies = 0;

uint32_t next_number() {
  uint32_t number = ++bodies;
  return number != 0 ? number : ++bodies;
}

[[noreturn]] void refuse_divided(std::string_view operation, std::string_view whole) {
  const OpenBody* body = innermost_body;
  const ThreadSet& threads = body->threads();
  while (body->outer() && body->outer()->threads() == threads) body = body->outer();
  throw Error(fmt::format("{}: for {} together, but into the {} only {}; call it outside of that", operation,
                          whole, body->describe(), threads.describe()));
}

// Assignments know no line: that of what was last built before.
Where line_before() {
  const Builder::State& s = Builder::current().state();
  return !callers::open_line && s.constant_line ? s.constant_line : s.nearest_line();
}

}  // namespace

OpenBody::OpenBody(std::string_view construct, Where where, const ThreadSet& threads)
    : construct_(construct),
      where_(where),
      outer_(innermost_body),
      number_(next_number()),
      threads_(outer_ ? outer_->threads_ & threads : threads) {
  innermost_body = this;
  open_body = number_;
}

OpenBody::~OpenBody() {
  innermost_body = outer_;
  open_body = outer_ ? outer_->number_ : 0;
}

const OpenBody* OpenBody::innermost() { return innermost_body; }

std::string OpenBody::describe() const { return fmt::format("{} at {}", construct_, to_string(where_)); }

bool Region::is_being_emitted(uint32_t body) noexcept {
  for (const OpenBody* open = innermost_body; open; open = open->outer())
    if (open->number() == body) return true;
  return false;
}

void Region::assign(const Region& other) {
  if (is_open() && body_ != open_body)
    throw Error(line_before(),
                fmt::format("assignment to a value that was made outside of the body of the {}: the body is "
                            "built once, so that what is assigned would hold for every thread and every "
                            "round; make the value a Var, as in Var<u32> x(0u), which the kernel changes",
                            innermost_body->describe()));
  body_ = other.is_open() ? open_body : other.body_;
}

void Region::has_ended(const llvm::Value* handle) {
  Builder::State& s = Builder::current().state();
  Where made;
  if (auto* instruction = llvm::dyn_cast<llvm::Instruction>(handle)) made = s.where_of(*instruction);
  if (auto constant = s.constants.find(handle); constant != s.constants.end()) made = constant->second;
  throw Error(s.nearest_line(), used_outside(s.signature.kernel, made));
}

void Region::variable_has_ended() {
  throw Error(line_before(),
              "a Var is used outside the branch or loop that makes it: it was set there alone, by those "
              "threads and in those rounds that came in; make it before");
}

std::string used_outside(std::string_view kernel, Where made) {
  return fmt::format("{}: a value{} is used outside the branch or loop that makes it; carry it in a Var",
                     kernel, made ? " made at " + to_string(made) : "");
}

void check_whole_warpgroups(std::string_view operation) {
  if (innermost_body && innermost_body->threads().divides_warpgroups())
    refuse_divided(operation, "all 128 threads of a warpgroup");
}

void check_all_threads(std::string_view operation, int threads) {
  if (!innermost_body) return;
  const ThreadSet& in = innermost_body->threads();
  bool all = !in.elected;
  for (size_t t = 0; t < static_cast<size_t>(threads); ++t) all = all && in.may[t];
  if (!all) refuse_divided(operation, "all threads of the CTA");
}

void check_one_thread(std::string_view operation, int threads) {
  ThreadSet in = innermost_body ? innermost_body->threads() : ThreadSet::all();
  if (!in.exact || in.elected) return;
  for (size_t t = static_cast<size_t>(threads); t < in.may.size(); ++t) in.may[t] = false;
  if (in.may.count() > 1)
    throw Error(fmt::format("{}: for one thread, but {}; call it in elect()", operation, in.describe()));
}

void check_some_thread(std::string_view reason) {
  const OpenBody* body = innermost_body;
  if (!body || body->threads().may.any()) return;
  const OpenBody* outer = body->outer();
  while (outer && outer->threads().may.none()) outer = outer->outer();
  throw Error(
      fmt::format("{}, but where it stands only {}, so that nothing would run; "
                  "if_(elect_sync(0xffffffff), ...) elects a lane of each warp that comes",
                  reason, outer ? outer->threads().describe() : "others come"));
}

}  // namespace ptxbuilder::detail
