// Implements the steps of every call of an operation, from its arguments to its launches.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "kernels/call/fastest.h"
#include "kernels/call/kernel_cache.h"
#include "kernels/call/launches.h"
#include "kernels/call/operand_sets.h"
#include "kernels/call/options.h"
#include "kernels/call/plans.h"
#include "kernels/call/tile_file.h"
#include "kernels/call/told_call.h"
#include "kernels/call/watched.h"

namespace ptxbuilder::kernels {

// Runs the calls of an operation. `Traits` define the operation's types and everything else that is specific
// to the operation:
//   Arguments  The arguments of a call, with the members `workspace` and `stream`. The free functions
//              sources_of(), words_of() and is_plain() accept them, and return what ByForm requires; the
//              sources begin with kNone and the workspace.
//   Placed     A call that has been checked. Its members are `operation`, is_empty, is_tunable(), operands()
//              (everything that the call reads or writes), moved(), and read(), written() and pads_written(),
//              which OperandSets needs. Two free functions accept it: key_of() identifies the call's plan,
//              and call_text() identifies the call's line in a file of tiles.
//   Tile       A tile. The free function text() returns its words. Traits::is_tile() returns whether words
//              describe a tile, and Traits::parse() returns that tile.
//   More       The part of a plan that is not its kernel or its tile.
//   kName      The name of the operation in errors.
//   kUnit      The unit of padded() for copies.
//   kWords, kFormWords   The numbers of words in the results of call_text() and words_of().
template <class Traits>
class CallEngine {
 public:
  using Arguments = typename Traits::Arguments;
  using Placed = typename Traits::Placed;
  using Tile = typename Traits::Tile;
  using Operation = decltype(Placed::operation);

  // Tiles that were found by measuring are stored in the file `tiles`, unless `tiles` is "".
  CallEngine(runtime::Device& device, const CallOptions& options, const std::string& tiles)
      : device_(device),
        multiprocessors_(multiprocessors_of(device, options)),
        compiler_(compiler_for(device, options.compiler)),
        tunes_first_(options.tune),
        copy_(device, compiler_),
        tuned_(tiles, Traits::kWords, [](const std::string& tile) { return Traits::is_tile(tile); }) {}
  virtual ~CallEngine() = default;

  // Queues a call. Throws Error if the call breaks a rule or a launch fails.
  void operator()(const Arguments& p, Where where) {
    told_call([&] { return described(p, where); }, [&] { call(p, where); });
  }

  size_t workspace_bytes(const Arguments& p, Where where) {
    const bool plain = is_plain(p);
    if (plain)
      if (const size_t* known = bytes_.find(words_of(p))) return *known;
    if (tunes_first_) tune_if_possible(p, SIZE_MAX, where);
    const uint64_t number = bytes_.number();
    Request r = request(p, where);
    if (!r.placed.is_empty) prepare_copies(copy_, r.placed.moved());
    if (plain) bytes_.add(words_of(p), r.bytes, number);
    return r.bytes;
  }

  Tile tile(const Arguments& p, Where where) {
    const Request r = request(p, where);
    if (r.placed.is_empty) throw Error(where, named("the tile of a call with nothing to do"));
    return r.plan.tile;
  }

  void tune(const Arguments& p, Where where) {
    if (device_.properties().ordinal < 0)
      throw Error(where, named("tuning needs a GPU, whose time it measures"), Error::Kind::unavailable);
    if (const char* reason = why_untunable())
      throw Error(where, named(std::string("tuning with ") + reason), Error::Kind::unavailable);
    if (device_.is_capturing(p.stream))
      throw Error(where, named("tuning in a capture, during which nothing runs: tune before the capture"),
                  Error::Kind::unavailable);
    tune_if_possible(p, SIZE_MAX, where);
  }

 protected:
  // The decisions that are stored for all calls with the same key.
  struct Plan {
    runtime::LoadedKernel* kernel;
    Tile tile;
    typename Traits::More more;
    bool tuned = false;  // whether the tile was found by measuring
  };

  // Each operation implements the functions below. Their errors name `where`.
  virtual Placed place(const Arguments& p, Where where) = 0;
  virtual Tile choose(const Placed& placed, Where where) = 0;  // called by only one thread at a time
  // Returns the tile after filling in the settings that it leaves open. Throws Error if the tile does not
  // suit the call.
  virtual Tile checked_tile(const Placed& placed, const Tile& tile, Where where) = 0;
  virtual typename Traits::More more_of(const Placed& placed, const Tile& tile) = 0;
  // Returns a kernel that was compiled elsewhere, or nullptr if the result of make() is to be compiled.
  virtual std::unique_ptr<runtime::LoadedKernel> loaded(const Operation& operation, const Tile& tile) = 0;
  virtual Kernel make(const Operation& operation, const Tile& tile) = 0;
  // Returns how many bytes of the workspace the kernel itself uses. These bytes precede the operands that are
  // copied.
  virtual size_t own_bytes(const Plan& plan, const Arguments& p) const = 0;
  virtual std::vector<Tile> tiles_to_measure(const Placed& placed, const Tile& chosen) = 0;
  // Replaces the memory of written operands that are not matrices, since tuning must not write to the
  // caller's memory.
  virtual void take_scratch(Placed& placed, OperandSets& sets) = 0;
  virtual void launch(const Plan& plan, Placed& placed, const Arguments& p, runtime::View own,
                      Launches& launches) = 0;
  // Returns the reason why calls cannot be tuned, such as "an epilogue of the user's own", or nullptr if they
  // can be tuned.
  virtual const char* why_untunable() const { return nullptr; }

  static int multiprocessors_of(const runtime::Device& device, const CallOptions& options) {
    return options.multiprocessors > 0 ? options.multiprocessors : device.properties().multiprocessors;
  }
  static std::string named(const std::string& text) { return std::string(Traits::kName) + ": " + text; }
  // Returns the source of an operand's address, which is the workspace if the operand has been moved there,
  // and otherwise `own`.
  static size_t source_of(const Operand& x, size_t own, const Arguments& p) {
    const bool is_moved = x.memory.address - p.workspace.address < p.workspace.bytes;
    return is_moved ? SourcedArguments::kWorkspace : own;
  }

  runtime::Device& device_;
  const int multiprocessors_;
  Compiler compiler_;

 private:
  // Returns a description of the operation and its sizes, in the words that files of tiles use.
  std::string described(const Arguments& p, Where where) {
    const Placed placed = place(p, where);
    return placed.is_empty ? named("a call with nothing to do") : named(call_text(placed));
  }

  void call(const Arguments& p, Where where) {
    const bool plain = is_plain(p);
    if (plain)
      if (const PreparedCall* known = prepared_.find(words_of(p))) return (*known)(sources_of(p), p.stream);
    if (tunes_first_) tune_if_possible(p, p.workspace.bytes, where);
    const uint64_t number = prepared_.number();
    Request r = request(p, where);
    if (r.placed.is_empty) {
      if (plain) prepared_.add(words_of(p), PreparedCall(), number);
      return;
    }
    const std::vector<const Operand*> operands = r.placed.operands();
    for (const Operand* x : operands) check_address(Traits::kName, *x, where);
    check_workspace(Traits::kName, p.workspace, r.bytes, operands, where);
    const auto sources = sources_of(p);
    Launches launches(copy_, sources, p.stream, plain, where);
    std::vector<Copied> first, behind;
    runtime::Address next = p.workspace.address + r.own_bytes;
    for (const Moved& moved : r.placed.moved()) {
      const Operand given = *moved.operand;
      Operand& near = *moved.operand = padded(given, Traits::kUnit);
      near.memory.address = next;
      next += kernels::workspace_bytes(given, Traits::kUnit);
      if (moved.is_read)
        first.push_back({given, moved.source, near, SourcedArguments::kWorkspace});
      else
        behind.push_back({near, SourcedArguments::kWorkspace, given, moved.source});
    }
    launches.copy(first);
    launch(r.plan, r.placed, p, {p.workspace.address, r.own_bytes}, launches);
    launches.copy(behind);
    if (launches.keeps()) prepared_.add(words_of(p), launches.take(), number);
  }

  // A call that was requested, with everything that is known about it before anything is queued.
  struct Request {
    Placed placed;
    Plan plan = {};
    size_t own_bytes = 0, bytes = 0;  // bytes of workspace for the kernel, and in total
  };

  Request request(const Arguments& p, Where where) {
    Request r = {.placed = place(p, where)};
    if (r.placed.is_empty) return r;
    r.plan = plan(r.placed, where);
    r.bytes = r.own_bytes = rounded_own_bytes(r.plan, p);
    for (const Moved& moved : r.placed.moved())
      r.bytes += kernels::workspace_bytes(*moved.operand, Traits::kUnit);
    return r;
  }
  size_t rounded_own_bytes(const Plan& plan, const Arguments& p) const {
    return static_cast<size_t>(round_up(static_cast<int64_t>(own_bytes(plan, p)), kPartAlignment));
  }
  Plan plan(const Placed& placed, Where where) {
    return plans_.get(key_of(placed), [&] { return plan_of(placed, chosen(placed, where), where); });
  }
  Tile chosen(const Placed& placed, Where where) {
    const std::lock_guard lock(choosing_);
    return choose(placed, where);
  }
  Plan plan_of(const Placed& placed, const Tile& given, Where where) {
    const Tile tile = checked_tile(placed, given, where);
    return {&kernel(placed.operation, tile), tile, more_of(placed, tile)};
  }
  runtime::LoadedKernel& kernel(const Operation& operation, const Tile& tile) {
    return kernels_.get(operation, tile, [&] {
      const WatchedKernels watched;
      auto kernel = loaded(operation, tile);
      return kernel
                 ? std::move(kernel)
                 : std::make_unique<runtime::LoadedKernel>(load(device_, compiler_, make(operation, tile)));
    });
  }

  bool can_tune(const Request& r, runtime::Stream stream) const {
    return !r.placed.is_empty && r.placed.is_tunable() && !r.plan.tuned &&
           device_.properties().ordinal >= 0 && !why_untunable() && !device_.is_capturing(stream);
  }
  void tune_if_possible(const Arguments& p, size_t most_own_bytes, Where where) {
    const Request r = request(p, where);
    if (can_tune(r, p.stream)) tune(r, p, most_own_bytes, where);
  }
  void tune(const Request& r, const Arguments& p, size_t most_own_bytes, Where where) {
    const std::lock_guard one_at_a_time(tuning_);
    if (plan(r.placed, where).tuned) return;  // another thread has tuned this call meanwhile
    Placed placed = r.placed;
    for (const Operand* x : placed.read()) check_address(Traits::kName, *x, where);
    const std::string call = call_text(r.placed);
    std::optional<Tile> tile = tuned_.find(
        call, [&](const std::string& kept) { return checked_tile(r.placed, Traits::parse(kept), where); });
    if (!tile || rounded_own_bytes(plan_of(r.placed, *tile, where), p) > most_own_bytes) {
      tile = measured(r, p, most_own_bytes, where);
      tuned_.keep(call, text(*tile));
    }
    Plan found = plan_of(r.placed, *tile, where);
    found.tuned = true;
    plans_.replace(key_of(r.placed), found);
    prepared_.clear();
    bytes_.clear();
  }
  Tile measured(const Request& r, const Arguments& p, size_t most_own_bytes, Where where) {
    Placed placed = r.placed;
    std::vector<Plan> plans;
    size_t own = 0;
    for (const Tile& tile : tiles_to_measure(placed, chosen(placed, where))) {
      Plan one = plan_of(placed, tile, where);
      const size_t bytes = rounded_own_bytes(one, p);
      if (bytes > most_own_bytes) continue;
      own = std::max(own, bytes);
      plans.push_back(std::move(one));
    }
    OperandSets sets(device_, copy_, placed.read(), placed.written(), placed.pads_written(), Traits::kUnit,
                     p.stream);
    take_scratch(placed, sets);
    const runtime::View memory = sets.memory(own);
    const auto sources = sources_of(p);
    const size_t found =
        fastest(device_, plans.size(), sets.size(), [&](size_t i, size_t set, runtime::Stream stream) {
          sets.take(set);
          Launches launches(copy_, sources, stream, false, where);
          launch(plans[i], placed, p, memory, launches);
        });
    return plans[found].tile;
  }

  const bool tunes_first_;
  MatrixCopier copy_;
  TileFile tuned_;
  std::mutex choosing_, tuning_;
  KernelCache<Operation, Tile> kernels_;
  Plans<std::tuple_size_v<decltype(key_of(std::declval<const Placed&>()))>, Plan> plans_;
  ByForm<Traits::kFormWords, PreparedCall> prepared_;
  ByForm<Traits::kFormWords, size_t> bytes_;  // the workspace size for each form of call, in bytes
};

}  // namespace ptxbuilder::kernels
