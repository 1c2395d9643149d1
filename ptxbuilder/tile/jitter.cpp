#include "ptxbuilder/tile/jitter.h"

#include <array>
#include <string_view>

#include "ptxbuilder/ir/typed_calls.h"

namespace ptxbuilder {
namespace {

// The seed of the innermost scope.
constinit thread_local std::optional<uint64_t> scope_seed;

// Returns whether a warp may sleep before an instruction. Polls are excluded, because the number of polls of
// a warp depends on other warps. Instructions between the products of a group are excluded because a sleep
// would separate the products.
bool is_dealing(std::string_view mnemonic) {
  constexpr std::array<std::string_view, 17> kDealings = {"mbarrier.arrive",
                                                          "mbarrier.expect_tx",
                                                          "mbarrier.init",
                                                          "cp.async.bulk",
                                                          "cp.async.mbarrier",
                                                          "cp.async.commit",
                                                          "cp.reduce.async",
                                                          "bar.sync",
                                                          "bar.arrive",
                                                          "barrier.",
                                                          "fence.",
                                                          "red.",
                                                          "atom.",
                                                          "st.release",
                                                          "st.async",
                                                          "griddepcontrol",
                                                          "bar.warp"};
  for (const std::string_view dealing : kDealings)
    if (mnemonic.starts_with(dealing)) return true;
  return false;
}

// Generates the pseudorandom numbers that determine how long a warp sleeps. All threads of a warp get the
// same numbers as long as they take the same path.
class Jitter {
 public:
  explicit Jitter(uint64_t seed)
      : seed_(static_cast<uint32_t>(seed ^ seed >> 32) * 0x9e3779b9u + 0x7f4a7c15u) {}

  // Makes the warp sleep in one of four calls, for up to 2047 ns (PTX ISA, nanosleep: the time is a hint).
  // The other calls sleep for 0 ns, because a branch around the instruction would make ptxas serialize wgmma
  // (C7520).
  void sleep() {
    Builder& builder = Builder::current();
    if (!state_) begin(builder);
    const u32 next = u32(builder.load_variable(state_, Class::u32)) * 1664525u + 1013904223u;
    builder.store_variable(state_, next.handle());
    nanosleep(select((next >> 30) == 0, (next >> 16) & 0x7ff, u32(0)));
  }

 private:
  void begin(Builder& builder) {
    state_ = builder.declare_variable(Class::u32);
    builder.emit_at_entry([&] {
      const u32 cta = ctaid_x() + nctaid_x() * (ctaid_y() + nctaid_y() * ctaid_z());
      const u32 mixed = (u32(seed_) ^ cta * 0x85ebca6bu ^ (tid_x() >> 5) * 0xc2b2ae35u) * 0x27d4eb2fu;
      builder.store_variable(state_, (mixed ^ mixed >> 15).handle());
    });
  }

  uint32_t seed_;
  llvm::Value* state_ = nullptr;
};

}  // namespace

JitterScope::JitterScope(uint64_t seed) : outer_(scope_seed) { scope_seed = seed; }
JitterScope::~JitterScope() { scope_seed = outer_; }

void detail::begin_jitter(Builder& builder) {
  if (!scope_seed) return;
  builder.on_instruction([jitter = std::make_shared<Jitter>(*scope_seed)](
                             Builder::When when, const isa::Row& row, std::span<const Argument>) {
    if (when == Builder::When::before && is_dealing(row.mnemonic())) jitter->sleep();
  });
}

}  // namespace ptxbuilder
