#include "ptxbuilder/analysis/regions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>

#include "ptxbuilder/analysis/exact.h"
#include "ptxbuilder/analysis/facts.h"

namespace ptxbuilder::analysis {
namespace {

using Attributes = std::vector<Event::Attribute>;

// Returns whether an instruction has no effect other than its results.
bool is_silent(const Operation& o) {
  if (o.is("ld") && o.has("param", "const")) return true;
  // Conversions with one of these words round.
  if (o.is("cvt") && !o.has("rn") && !o.has("rna") && !o.has("rz") && !o.has("rni") && !o.has("rzi"))
    return true;
  if (o.is("bra", "brx", "ret", "exit", "nop")) return true;
  const bool has_effect = o.is("ld", "atom", "shfl", "vote", "match", "elect", "mbarrier", "ldmatrix", "mma",
                               "call", "bar", "barrier", "redux", "activemask", "cvt", "wgmma");
  return !o.writes.empty() && !has_effect;
}

class Teller {
 public:
  explicit Teller(KernelAnalysis& kernel)
      : kernel_(kernel),
        p_(kernel.portrait),
        code_(kernel.code),
        graph_(kernel.graph),
        values_(kernel.values),
        exact_(code_, graph_, values_) {
    values_.name_variables(false);
    for (const BarrierArray& array : p_.barriers)
      for (const BarrierUse& use : array.uses) barrier_of_[use.operation] = array.name;
    find_tiles();
  }

  // Returns a function as a single region, including its loops.
  Region function(std::string name) {
    Region r{.name = std::move(name), .events = {}};
    std::vector<std::string> types;
    for (const auto* list : {&code_.function->results, &code_.function->parameters}) {
      for (const ptx_text::Declaration& d : *list) {
        types.push_back(d.qualifiers.empty() ? "" : d.qualifiers.back());
        if (!d.names.empty())
          for (const std::string& extent : d.names[0].extents) types.back() += fmt::format("[{}]", extent);
      }
      types.emplace_back(list == &code_.function->results ? "of" : "");
    }
    r.events.push_back({.kind = "function",
                        .weight = Weight::result,
                        .attributes = {{Weight::result, "results and parameters",
                                        fmt::format("{}", fmt::join(types, " ")), "other arguments"}}});
    for (int block : graph_.order) add_block(block, r);
    add_conversions(r);
    for (const std::string& what : p_.unknowns)
      r.events.push_back({.kind = what.substr(0, what.find(" at line")), .weight = Weight::protocol});
    return r;
  }

  std::vector<Region> run() {
    std::vector<Region> all = facts(kernel_);
    all.push_back(tiles());
    std::map<std::string, int> named;
    std::set<int> in_loops;
    for (const Mainloop& loop : p_.loops) {
      Region r{.name = fmt::format("loop of {}", role_name(loop.role)), .events = {}};
      if (const int n = ++named[r.name]; n > 1) r.name += fmt::format(" {}", n);
      for (int block : graph_.in_order(graph_.loops[at(loop.loop)]))
        add_block(block, r), in_loops.insert(block);
      add_conversions(r);
      all.push_back(std::move(r));
    }
    std::map<std::string, Region> outside;
    for (int block : graph_.order) {
      if (in_loops.contains(block)) continue;
      std::string name = fmt::format("{} outside of its loops", roles_of(block));
      Region& r = outside[name];
      r.name = name;
      add_block(block, r);
    }
    for (auto& [name, region] : outside) {
      add_conversions(region);
      all.push_back(std::move(region));
    }
    // During the loop, the functions that these functions call are added to the list.
    for (size_t f = 0; f < kernel_.numbering->functions.size(); ++f) {
      KernelAnalysis called(kernel_, *kernel_.numbering->functions[f]);
      all.push_back(Teller(called).function(fmt::format("function {}", f + 1)));
    }
    return all;
  }

 private:
  const Operation& operation(int i) const { return code_.operations[at(i)]; }
  Sum operand(int i, size_t n) {
    return n < operation(i).operands.size() ? values_.of(i, operation(i).operands[n]) : Sum{};
  }
  // Returns a description of a value. If the value has terms that are specific to a kernel, the description
  // is its hash.
  std::string text_of(const Sum& sum) const {
    const bool is_plain = std::all_of(sum.terms.begin(), sum.terms.end(), [&](const auto& term) {
      const Atom::Kind kind = values_.atom(term.first).kind;
      return kind == Atom::Kind::special || kind == Atom::Kind::address || kind == Atom::Kind::stage ||
             kind == Atom::Kind::parameter;
    });
    return values_.text(sum, 1) + (is_plain ? "" : fmt::format(" #{:08x}", values_.hash(sum) >> 32));
  }

  std::string in_words(const Sum& sum) const {
    return fmt::format("{} #{:08x}", values_.text(sum, 2), values_.hash(sum) >> 32);
  }

  std::string role_name(int role) const { return role == kNone ? "several roles" : p_.roles[at(role)].name; }
  std::string roles_of(int block) const {
    std::vector<std::string> names;
    for (const Role& role : p_.roles)
      if (std::binary_search(role.blocks.begin(), role.blocks.end(), block)) names.push_back(role.name);
    return names.empty() ? "all roles" : fmt::format("{}", fmt::join(names, " and "));
  }

  // Returns the barrier that an instruction uses, with the stage of the barrier's ring.
  std::string barrier(int i, size_t place) {
    const auto found = barrier_of_.find(i);
    const Sum address = operand(i, place);
    if (found == barrier_of_.end()) return fmt::format("unknown #{:08x}", values_.hash(address) >> 32);
    std::string name = barrier_at(address);
    for (const auto& [number, factor] : address.terms)
      if (const Atom& a = values_.atom(number); a.kind == Atom::Kind::stage)
        name += fmt::format(" of {} {} B apart", a.inputs[1].constant, factor);
    return name + first_of(address);
  }

  // A tile, or a ring of tiles, that copies fill. Other addresses are described relative to the tile that
  // contains them.
  struct Tile {
    std::string name = {};
    Sum base = {}, added = {};  // start relative to shared memory, and the terms of threads or CTAs
    std::optional<std::pair<int64_t, int64_t>>
        ring;  // distance between stages in bytes, and the number of stages
  };

  Tile tile_at(const Sum& address) const {
    Tile tile;
    tile.base.constant = address.constant;
    for (const auto& [number, factor] : address.terms) {
      const Atom& a = values_.atom(number);
      if (a.kind == Atom::Kind::stage && !tile.ring)
        tile.ring = {factor, a.inputs[1].constant};
      else
        (a.kind == Atom::Kind::address ? tile.base : tile.added).terms.emplace_back(number, factor);
    }
    return tile;
  }

  // Finds the rings that loads fill, and one tile that stores read. That tile begins at the lowest address
  // that stores read.
  void find_tiles() {
    std::optional<Tile> stored;
    std::set<std::pair<std::vector<std::pair<int, int64_t>>, int64_t>> met;
    for (int i = 0; at(i) < code_.operations.size(); ++i) {
      const Operation& o = operation(i);
      if (o.is_bulk_load()) {
        Tile tile = tile_at(operand(i, 0));
        if (met.emplace(tile.base.terms, tile.base.constant).second) tiles_.push_back(std::move(tile));
      } else if (o.is("cp") && o.has("bulk_group") && o.operands.size() > 1) {
        Tile tile = tile_at(operand(i, 1));
        if (!stored || values_.place_in_memory(tile.base) < values_.place_in_memory(stored->base))
          stored = std::move(tile);
      }
    }
    const auto is_ahead = [&](const Tile& x, const Tile& y) {
      return values_.place_in_memory(x.base) < values_.place_in_memory(y.base);
    };
    std::stable_sort(tiles_.begin(), tiles_.end(), is_ahead);
    for (size_t t = 0; t < tiles_.size(); ++t) tiles_[t].name = fmt::format("tile {}", t);
    if (stored &&
        std::none_of(tiles_.begin(), tiles_.end(), [&](const Tile& t) { return t.base == stored->base; })) {
      stored->name = "staging";
      const auto place =
          std::find_if(tiles_.begin(), tiles_.end(), [&](const Tile& t) { return is_ahead(*stored, t); });
      tiles_.insert(place, std::move(*stored));
    }
  }

  static std::string ring_text(const Tile& tile) {
    return tile.ring ? fmt::format("{} stages of {} B", tile.ring->second, tile.ring->first) : "no stage";
  }
  // Returns a description of the first stage of a ring if the stage is not 0.
  std::string first_of(const Sum& address) const {
    for (const auto& [number, factor] : address.terms)
      if (const Atom& a = values_.atom(number); a.kind == Atom::Kind::stage && !(a.inputs[0] == Sum{}))
        return fmt::format(" from stage {}", a.inputs[0].is_constant()
                                                 ? values_.text(a.inputs[0])
                                                 : fmt::format("#{:08x}", values_.hash(a.inputs[0]) >> 32));
    return "";
  }

  // Returns a position in copied data, such as "tile 1 + 32", or the address if it is outside such data.
  std::string place_of(const Sum& address) const {
    Tile here = tile_at(address);
    for (size_t t = tiles_.size(); t-- > 0;) {
      const Tile& tile = tiles_[t];
      if (tile.base.terms != here.base.terms || tile.ring.has_value() != here.ring.has_value()) continue;
      here.added.constant = here.base.constant - tile.base.constant;
      const bool is_first = t == 0 || tiles_[t - 1].base.terms != tile.base.terms;
      if (here.added.constant < 0 && !is_first && here.added.is_constant()) continue;
      // The terms of a thread may be negative. Such an address belongs to the nearest tile.
      const bool is_near = here.added.constant >= 0 || is_first || here.added.constant > -(int64_t{1} << 14);
      if (!is_near) continue;
      const std::string added = text_of(here.added);
      return tile.name + (here.ring == tile.ring ? "" : " of " + ring_text(here)) + first_of(address) +
             (added == "0" ? "" : " + " + added);
    }
    return text_of(address);
  }

  Region tiles() const {
    Region r{.name = "tiles", .events = {}};
    for (const Tile& tile : tiles_) {
      Event e{.kind = tile.name, .weight = Weight::result};
      e.attributes.push_back({Weight::detail, "at", text_of(tile.base), "another map of shared memory"});
      if (tile.ring) {
        e.attributes.push_back({Weight::result, "bytes of a stage", std::to_string(tile.ring->first),
                                "tiles that overlap, or gaps"});
        e.attributes.push_back({Weight::pipeline, "stages", std::to_string(tile.ring->second),
                                "how many loads are ahead of the products"});
      }
      r.events.push_back(std::move(e));
    }
    return r;
  }

  // Returns a position relative to the first barrier of an array, such as "full" or "full + 8 B".
  std::string barrier_at(const Sum& address) const {
    const Sum shared = plain(address);
    for (size_t i = 0; i < p_.barriers.size(); ++i) {
      const BarrierArray& array = p_.barriers[i];
      const int64_t offset = shared.constant - array.base.constant;
      if (array.base.terms != shared.terms || offset < 0 || offset >= 8 * array.count) continue;
      return array.name + (offset ? fmt::format(" + {} B", offset) : "");
    }
    return text_of(address);
  }
  // Returns an address without the terms of stages and threads, and without the CTA of the cluster.
  Sum plain(Sum address) const {
    if (const Atom* mapped = values_.only_atom(address, "mapa")) address = mapped->inputs[0];
    std::erase_if(address.terms,
                  [&](const auto& t) { return values_.atom(t.first).kind != Atom::Kind::address; });
    return address;
  }

  std::string parity(const Sum& sum) {
    if (sum.is_constant()) return std::to_string(sum.constant & 1);
    // Finds the first value of a parity that flips.
    Sum now = sum;
    for (int depth = 0; depth < 8; ++depth) {
      const Atom* meet = values_.only_atom(now, "meet");
      if (!meet) break;
      const auto first = std::find_if(meet->inputs.begin(), meet->inputs.end(),
                                      [](const Sum& s) { return s.is_constant(); });
      if (first != meet->inputs.end())
        return fmt::format("flips, {} at first #{:08x}", first->constant & 1, values_.hash(sum) >> 32);
      now = meet->inputs[0];
    }
    return fmt::format("#{:016x}", values_.hash(sum));
  }

  std::string matrix(int i, size_t n) {
    const Operation& o = operation(i);
    if (o.operands[n].kind == Value::Kind::vector) return "registers";
    const auto d = decode_descriptor(values_, operand(i, n));
    if (!d) return fmt::format("unknown descriptor #{:016x}", values_.hash(operand(i, n)));
    return fmt::format("{}, stride {} B, leading {} B{}", layout_name(*d), d->stride_bytes, d->leading_bytes,
                       d->base_offset ? fmt::format(", base offset {}", d->base_offset) : "");
  }
  // Returns the position of a matrix, including the terms that are added to the start of shared memory.
  std::string place(int i, size_t n) {
    const auto d = decode_descriptor(values_, operand(i, n));
    return d ? place_of(d->address) : "unknown";
  }

  void add_wgmma(int i, Region& r) {
    const Operation& o = operation(i);
    const std::string shape = o.text->opcode.substr(o.text->opcode.find(".m64") + 1);
    std::string immediates;
    for (size_t n = 4; n < o.operands.size(); ++n)
      immediates += fmt::format("{}{}", n > 4 ? ", " : "", text_of(operand(i, n)));
    const Sum scale = operand(i, 3);
    r.events.push_back(
        {.kind = "wgmma",
         .weight = Weight::result,
         .attributes =
             {{Weight::result, "shape and types", shape,
               "another product, or more instructions for the same"},
              {Weight::result, "A", matrix(i, 1), "operands read from elsewhere, or bank conflicts"},
              {Weight::result, "B", matrix(i, 2), "operands read from elsewhere, or bank conflicts"},
              {Weight::result, "A at", place(i, 1), "operands read from elsewhere"},
              {Weight::result, "B at", place(i, 2), "operands read from elsewhere"},
              {Weight::result, "scales and transposes", immediates, "a negated or transposed operand"},
              {Weight::result, "adds to the accumulator",
               scale.is_constant() ? (scale.constant ? "yes" : "no")
                                   : fmt::format("where {}", in_words(scale)),
               "sums that start from zero, or do not"}},
         .effect = "products that are missing, or more instructions for the same",
         .line = o.at.line});
  }

  void add_copy(int i, Region& r, bool in) {
    const Operation& o = operation(i);
    std::string dimensions = "bulk";
    for (std::string_view word : o.words)
      if (word.size() == 2 && word[1] == 'd') dimensions = word;
    std::vector<Sum> addresses;
    std::string coordinates, rest;
    size_t barrier_place = 0;
    for (size_t n = 0; n < o.operands.size(); ++n) {
      if (o.operands[n].kind != Value::Kind::address) {
        rest += (rest.empty() ? "" : ", ") + text_of(operand(i, n));
        continue;
      }
      addresses.push_back(operand(i, n));
      barrier_place = n;
      if (o.operands[n].parts.size() > 1)
        for (const Value& part : o.operands[n].parts[1].parts)
          coordinates += (coordinates.empty() ? "" : ", ") + in_words(values_.of(i, part));
    }
    Attributes all = {
        {Weight::result, "dimensions", dimensions, "another box"},
        {Weight::result, "multicast", o.has("multicast::cluster") ? "yes" : "no",
         "L2 is read once for each CTA"},
        {Weight::detail, "cache hint", o.has("L2::cache_hint") ? "yes" : "no", "what L2 keeps"},
        {Weight::result, "coordinates", coordinates, "another part of the tensor"},
        {Weight::result, "bytes, masks and hints", rest, "other CTAs, or another cache policy"}};
    if (!addresses.empty())
      all.push_back({Weight::result, in ? "into" : "to", place_of(addresses[0]), "another place in memory"});
    if (addresses.size() > 1)
      all.push_back({Weight::result, "from", place_of(addresses[1]),
                     "another tensor, or another place in shared memory"});
    if (in)
      all.push_back(
          {Weight::protocol, "signals", barrier(i, barrier_place), "threads that wait may read too early"});
    if (o.guard != kNone) all.push_back({Weight::protocol, "predicate", predicate(i), "other threads copy"});
    r.events.push_back({.kind = in ? "copy in" : "copy out",
                        .weight = Weight::result,
                        .attributes = std::move(all),
                        .effect = in ? "data that is not loaded, or more instructions for the same"
                                     : "results that are not stored, or more instructions for the same",
                        .line = o.at.line,
                        .any_order = in ? "copies" : ""});
  }

  void add_mbarrier(int i, Region& r) {
    const Operation& o = operation(i);
    size_t place = 0;
    while (place < o.operands.size() && o.operands[place].kind != Value::Kind::address) ++place;
    Event e{.kind = "", .weight = Weight::protocol, .line = o.at.line};
    e.effect = "a phase that ends too early, or never";
    if (o.has("init")) {
      e.kind = "mbarrier.init";
      e.any_order = "mbarrier.init";
      e.effect = "an uninitialised barrier";
      e.attributes = {{Weight::protocol, "barrier", barrier_at(operand(i, place)), "another barrier"},
                      {Weight::protocol, "arrivals", text_of(operand(i, place + 1)),
                       "a phase that ends too early, or never"}};
    } else if (o.has("try_wait", "test_wait")) {
      e.kind = "wait";
      e.effect = "data that is read before it is there, or overwritten while it is read";
      e.attributes = {
          {Weight::protocol, "barrier", barrier(i, place), "data that is not there yet"},
          {Weight::protocol, "parity", parity(operand(i, place + 1)), "a wait that passes at once, or never"},
          {Weight::protocol, "form", o.canonical(), "how long a thread sleeps, or which writes it sees"}};
      if (o.operands.size() > place + 2)
        e.attributes.push_back({Weight::detail, "nanoseconds at most", text_of(operand(i, place + 2)),
                                "how long a thread sleeps between two tests"});
    } else {
      e.kind = o.has("expect_tx") ? "expect" : o.has("inval") ? "mbarrier.inval" : "arrive";
      e.attributes = {
          {Weight::protocol, "barrier", barrier(i, place), "a stage that is freed too early, or never"},
          {Weight::protocol, "form", o.canonical(), "the scope of what the barrier orders"}};
      if (o.operands.size() > place + 1)
        e.attributes.push_back({Weight::protocol, o.has("expect_tx") ? "bytes" : "count",
                                text_of(operand(i, place + 1)), "a phase that ends too early, or never"});
    }
    if (o.guard != kNone)
      e.attributes.push_back({Weight::protocol, "predicate", predicate(i), "other threads arrive"});
    r.events.push_back(std::move(e));
  }

  // Returns a description of a predicate. For the result of a wait, the description only states whether the
  // wait has ended, because the wait's event contains its other properties.
  std::string predicate(int i) {
    Sum sum = values_.before(i, operation(i).guard);
    bool negated = operation(i).negated;
    while (const Atom* opposite = values_.only_atom(sum, "not.pred")) {
      sum = opposite->inputs[0];
      negated = !negated;
    }
    for (const char* wait : {"mbarrier.try_wait", "mbarrier.test_wait"})
      if (values_.only_atom(sum, wait)) return negated ? "a wait has not ended" : "a wait has ended";
    if (negated)
      if (const auto opposite = values_.opposite(sum)) return in_words(*opposite);
    return fmt::format("{}{}", negated ? "not " : "", in_words(sum));
  }

  void add_block(int block, Region& r) {
    for (int i = graph_.blocks[at(block)].first; i < graph_.blocks[at(block)].last; ++i) {
      const Operation& o = operation(i);
      ++r.mnemonics[o.text->opcode];
      add_extension(i, r);
      const size_t events = r.events.size();
      if (o.is("ret") && !o.reads.empty()) add_results(i, r);
      if (o.is_wgmma()) {
        add_wgmma(i, r);
      } else if (o.is_bulk_load()) {
        add_copy(i, r, true);
      } else if (o.is("cp") && o.has("bulk") && o.has("bulk_group")) {
        add_copy(i, r, false);
      } else if (o.is("mbarrier")) {
        add_mbarrier(i, r);
      } else if (o.is("brx")) {
        conditions_[r.name].emplace("by " + in_words(operand(i, 0)),
                                    Branch{o.at.line, exact_.of_branch(block)});
      } else if ((!o.targets.empty() || o.ends()) && o.guard != kNone) {
        conditions_[r.name].emplace(predicate(i), Branch{o.at.line, exact_.of_branch(block)});
      } else if (o.is("cvt") && !is_silent(o)) {
        Conversions& all = conversions_[r.name][o.canonical()];
        ++all.number;
        all.values += values_.hash(operand(i, 1)) ^ values_.hash(operand(i, 2));
        all.exact += exact_.of(i);
      } else if (!is_silent(o) || reads_argument(i)) {
        add_other(i, r);
      }
      if (r.events.size() > events) r.events.back().exact = exact_.of(i);
    }
    const Block& b = graph_.blocks[at(block)];
    const bool ends =
        b.first < b.last && operation(b.last - 1).ends() && operation(b.last - 1).guard == kNone;
    if (ends) r.exact += mixed(2, exact_.of(b.last - 1));
  }

  // Adds the values that a function returns in registers.
  void add_results(int i, Region& r) {
    std::vector<std::string> values;
    for (int reg : operation(i).reads) values.push_back(text_of(values_.before(i, reg)));
    r.events.push_back({.kind = "ret",
                        .weight = Weight::result,
                        .attributes = {{Weight::result, "results", fmt::format("{}", fmt::join(values, ", ")),
                                        "other values"}},
                        .line = operation(i).at.line});
  }

  // Describes the values that a call has stored in the caller's .param space.
  bool reads_argument(int i) {
    const Operation& o = operation(i);
    if (!o.is("ld") || !o.has("param") || o.operands.size() < 2) return false;
    const Sum address = operand(i, 1);
    return std::any_of(address.terms.begin(), address.terms.end(), [&](const auto& term) {
      return values_.atom(term.first).kind == Atom::Kind::address;
    });
  }

  // Records a conversion that widens a value or changes an address's state space. The sum of a value does not
  // show such conversions, so the set of a region's conversions is compared with that of the other kernel.
  // Conversions of small nonnegative values are omitted, because sign and zero extension give the same result
  // for them.
  void add_extension(int i, Region& r) {
    const Operation& o = operation(i);
    const bool widens = o.is("cvt") && o.words.size() == 3 && o.words[1].ends_with("64") &&
                        !o.words[2].ends_with("64") && o.words[2][0] != 'f';
    const bool is_wide = o.is("mul", "mad") && o.has("wide");
    const bool is_other = o.is("cvta") || (o.is("ld") && o.has("param"));
    if (!widens && !is_wide && !is_other) return;
    std::string how = is_wide || widens ? std::string(1, o.words.back()[0]) : o.canonical();
    if (o.is("ld") && (how.ends_with("32") || how.ends_with("64"))) how[how.size() - 3] = 'b';
    for (size_t n = 1; n < o.operands.size() && n < (is_wide ? 3 : 2); ++n) {
      const Sum sum = operand(i, n);
      if (!is_other && values_.is_small(sum)) continue;
      const uint64_t hash = mixed(hash_of(how), exact_.of(sum));
      if (extended_[r.name].insert(hash).second) r.exact += hash;
    }
  }

  // Adds the conversions, which may be in any order.
  void add_conversions(Region& r) {
    for (const auto& [condition, branch] : conditions_[r.name])
      r.events.push_back({.kind = "branch",
                          .weight = Weight::protocol,
                          .attributes = {{Weight::result, "condition", condition,
                                          "another number of steps, or other threads"}},
                          .effect = "another number of steps, or other threads",
                          .line = branch.line,
                          .any_order = "branches",
                          .exact = branch.exact});
    for (const auto& [opcode, found] : conversions_[r.name])
      r.events.push_back({.kind = opcode,
                          .weight = Weight::result,
                          .attributes = {{Weight::detail, "number", std::to_string(found.number),
                                          "another rounding, or more of it"},
                                         {Weight::detail, "values",
                                          fmt::format("#{:08x}", found.values >> 32), "other values"}},
                          .exact = found.exact});
  }

  // Describes the effect if the other kernel does not contain such an instruction.
  static std::string effect_of(const Operation& o) {
    if (o.is("wgmma") && o.has("fence")) return "registers of products that are written too late: wrong sums";
    if (o.is("wgmma") && o.has("commit_group")) return "a wait that does not cover these products";
    if (o.is("wgmma")) return "sums or stages that are used while products are in flight";
    if (o.has("mbarrier_init")) return "barriers that other threads and CTAs may use uninitialised";
    if (o.is("fence") && o.has("proxy")) return "copies that read shared memory before it is written";
    if (o.is("fence", "membar")) return "other threads that read memory before it is written";
    if (o.is("cp") && o.has("commit_group")) return "a wait that does not cover these copies";
    if (o.is("cp") && o.has("wait_group")) return "shared memory that is overwritten while it is read";
    if (o.is("barrier") && o.has("cluster"))
      return "CTAs that have ended, or not yet started, when others access their memory";
    if (o.is_barrier()) return "threads that do not wait for others";
    if (o.is("griddepcontrol")) return "a launch that reads too early, or that waits for longer";
    if (o.is("setmaxnreg")) return "spills, or other warps that lack registers";
    if (o.is("prefetch")) return "a first access that waits for longer";
    if (o.is("st", "stmatrix", "red", "atom"))
      return "results that are not stored, or more instructions for the same";
    return "";
  }

  void add_other(int i, Region& r) {
    const Operation& o = operation(i);
    const bool orders = o.is("fence", "bar", "barrier", "wgmma", "cp", "griddepcontrol");
    const bool stores = o.is("st", "stmatrix", "red", "atom");
    const Weight weight = orders || stores ? Weight::result : Weight::detail;
    // `values` contains all values that the instruction reads, such as the number of a group or a barrier, or
    // the address and the values of a store.
    std::vector<std::string> places, values;
    for (size_t n = o.updates ? 1 : o.results; n < o.operands.size(); ++n) {
      const bool is_place = o.operands[n].kind == Value::Kind::address;
      (is_place ? places : values).push_back(is_place ? place_of(operand(i, n)) : text_of(operand(i, n)));
    }
    Event e{.kind = o.canonical(), .weight = weight, .effect = effect_of(o), .line = o.at.line};
    if (o.is("fence")) e.any_order = "fences";
    if (!places.empty())
      e.attributes.push_back(
          {Weight::result, "at", fmt::format("{}", fmt::join(places, ", ")), "another place in memory"});
    if (!values.empty()) {
      const bool groups = o.has("wait_group");
      e.attributes.push_back({weight, groups ? "groups left" : "operands",
                              fmt::format("{}", fmt::join(values, ", ")),
                              groups   ? "registers or memory that are read too early, or less work in flight"
                              : orders ? "other threads meet"
                                       : "other values"});
    }
    if (o.guard != kNone)
      e.attributes.push_back({weight, "predicate", predicate(i), "other threads do this"});
    r.events.push_back(std::move(e));
  }

  KernelAnalysis& kernel_;
  const Portrait& p_;
  const Code& code_;
  const Graph& graph_;
  Values& values_;
  std::vector<Tile> tiles_;
  const Exact exact_;
  struct Conversions {
    int number = 0;
    uint64_t values = 0, exact = 0;
  };
  struct Branch {
    uint32_t line;
    uint64_t exact;
  };
  std::map<std::string, std::map<std::string, Conversions>> conversions_;  // indexed by region and mnemonic
  std::map<std::string, std::multimap<std::string, Branch>> conditions_;   // indexed by region
  std::map<std::string, std::set<uint64_t>> extended_;                     // indexed by region
  std::map<int, std::string> barrier_of_;
};

}  // namespace

std::string_view name(Weight weight) {
  constexpr std::string_view names[] = {"result", "protocol", "pipeline", "resources", "detail"};
  return names[static_cast<size_t>(weight)];
}

std::vector<Region> regions(KernelAnalysis& kernel) {
  std::vector<Region> all = Teller(kernel).run();
  kernel.values.name_variables(true);
  return all;
}

}  // namespace ptxbuilder::analysis
