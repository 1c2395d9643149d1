#include "ptxbuilder/analysis/facts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "ptxbuilder/analysis/thread_values.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::analysis {
namespace {

using Operations = std::vector<int>;  // by number, in an order of control flow
using Test = std::function<bool(const Operation&)>;

std::string joined(const std::vector<std::string>& words) {
  return words.empty() ? "none" : fmt::format("{}", fmt::join(words, ", "));
}

// One of them where all are alike.
std::string alike(const std::vector<std::string>& words) {
  const bool are =
      std::all_of(words.begin(), words.end(), [&](const auto& word) { return word == words[0]; });
  return words.size() > 1 && are ? words[0] : joined(words);
}

// "2 x (wait, free)" of "wait, free, wait, free".
std::string folded(const std::vector<std::string>& words) {
  for (size_t period = 1; period <= words.size() / 2; ++period) {
    if (words.size() % period != 0) continue;
    bool repeats = true;
    for (size_t i = period; i < words.size(); ++i) repeats &= words[i] == words[i - period];
    if (repeats)
      return fmt::format("{} x ({})", words.size() / period,
                         fmt::join(words.begin(), words.begin() + static_cast<int64_t>(period), ", "));
  }
  return joined(words);
}

// PTX ISA, createpolicy: what CUTLASS and others write as a constant.
std::string policy(const Sum& sum) {
  if (!sum.is_constant()) return "a computed policy";
  switch (static_cast<uint64_t>(sum.constant)) {
    case 0x1000000000000000:
      return "evict_normal, which is the default";
    case 0x12f0000000000000:
      return "evict_first";
    case 0x14f0000000000000:
      return "evict_last";
    default:
      return fmt::format("{:#x}", static_cast<uint64_t>(sum.constant));
  }
}

class Facts {
 public:
  Facts(const Portrait& portrait, const Code& code, const Graph& graph, Values& values)
      : p_(portrait), code_(code), graph_(graph), values_(values) {
    for (const Mainloop& loop : p_.loops) {
      const Operations all = operations_of(graph_.loops[at(loop.loop)].blocks);
      if (count(all, is_product) > 0 && !product_loop_) product_loop_ = &loop;
      if (count(all, &Operation::is_bulk_load) > 0 && !load_loop_) load_loop_ = &loop;
    }
    if (product_loop_) products_ = operations_of(graph_.loops[at(product_loop_->loop)].blocks);
    if (load_loop_) loads_ = operations_of(graph_.loops[at(load_loop_->loop)].blocks);
    all_ = operations_of(graph_.order);
    find_epilogue();
  }

  std::vector<Region> run() {
    launch();
    roles();
    ring();
    copies();
    products();
    epilogue();
    schedule();
    start_and_end();
    unknowns();
    return std::move(regions_);
  }

 private:
  static bool is_product(const Operation& o) { return o.is_wgmma() || (o.is("mma") && o.has("sync")); }
  static bool is_wait(const Operation& o) {
    return o.is("mbarrier") && (o.has("try_wait") || o.has("test_wait"));
  }
  static bool is_store(const Operation& o) {
    return o.is("cp") && o.has("bulk") && o.has("bulk_group") && !o.operands.empty();
  }

  const Operation& operation(int i) const { return code_.operations[at(i)]; }
  Sum operand(int i, size_t n) {
    return n < operation(i).operands.size() ? values_.of(i, operation(i).operands[n]) : Sum{};
  }
  Operations operations_of(const std::vector<int>& blocks) const {
    std::vector<bool> chosen(graph_.blocks.size(), false);
    for (int block : blocks) chosen[at(block)] = true;
    Operations all;
    for (int block : graph_.order)
      if (chosen[at(block)])
        for (int i = graph_.blocks[at(block)].first; i < graph_.blocks[at(block)].last; ++i) all.push_back(i);
    return all;
  }
  size_t count(const Operations& all, const Test& test) const {
    return static_cast<size_t>(
        std::count_if(all.begin(), all.end(), [&](int i) { return test(operation(i)); }));
  }
  uint32_t line(const Operations& all, const Test& test) const {
    const auto found = std::find_if(all.begin(), all.end(), [&](int i) { return test(operation(i)); });
    return found == all.end() ? 0 : operation(*found).at.line;
  }
  std::string role_of(int block) const {
    std::vector<std::string> names;
    for (const Role& role : p_.roles)
      if (std::binary_search(role.blocks.begin(), role.blocks.end(), block)) names.push_back(role.name);
    return names.empty() ? "all" : fmt::format("{}", fmt::join(names, " and "));
  }
  const BarrierArray* barrier(std::string_view name) const {
    const auto found = std::find_if(p_.barriers.begin(), p_.barriers.end(),
                                    [&](const BarrierArray& a) { return a.name == name; });
    return found == p_.barriers.end() ? nullptr : &*found;
  }

  void region(const char* name) { regions_.push_back({.name = name, .events = {}, .is_fact = true}); }
  void add(Weight weight, const char* kind, std::string value, const char* effect, uint32_t line = 0) {
    regions_.back().events.push_back({.kind = kind,
                                      .weight = weight,
                                      .attributes = {{weight, "", std::move(value), effect}},
                                      .effect = effect,
                                      .line = line});
  }
  // How many there are of some instructions.
  void add_count(Weight weight, const char* kind, const Operations& all, const Test& test,
                 const char* effect) {
    add(weight, kind, std::to_string(count(all, test)), effect, line(all, test));
  }
  // How often there is each of them, by its mnemonic.
  void add_kinds(Weight weight, const char* kind, const Operations& all, const Test& test,
                 const char* effect) {
    std::map<std::string, int> found;
    for (int i : all)
      if (test(operation(i))) ++found[plain(operation(i))];
    std::vector<std::string> words;
    for (const auto& [name, times] : found) words.push_back(fmt::format("{} x {}", times, name));
    add(weight, kind, joined(words), effect, line(all, test));
  }
  // Which there are, however often.
  void add_forms(Weight weight, const char* kind, const Operations& all, const Test& test,
                 const char* effect) {
    std::set<std::string> found;
    for (int i : all)
      if (test(operation(i))) found.insert(plain(operation(i)));
    add(weight, kind, joined({found.begin(), found.end()}), effect, line(all, test));
  }
  // The mnemonic without the spellings of one meaning.
  static std::string plain(const Operation& o) {
    std::string name(o.words[0]), count;
    for (size_t i = 1; i < o.words.size(); ++i) {
      const std::string_view word = o.words[i];
      const bool is_default = (o.is("mul") || o.is("add")) && word == "rn";
      const bool is_spelling = (word == "sync" && !o.is("bar")) || word == "aligned" || word == "shared" ||
                               word == "shared::cta" || word == "b16" || word == "tile";
      if (is_default || is_spelling) continue;
      if ((o.is("stmatrix") || o.is("ldmatrix")) && word[0] == 'x')
        count = word;  // ahead of the shape or behind it
      else
        name += fmt::format(".{}", word);
    }
    return count.empty() ? name : fmt::format("{}.{}", name, count);
  }

  void launch() {
    region("launch");
    add(Weight::result, "threads", std::to_string(p_.threads),
        "parts of a tile that no warp computes, or other registers for each");
    for (const auto& [name, kind, effect] :
         {std::tuple(".minnctapersm", "CTAs that an SM shall hold", "another limit of registers"),
          std::tuple(".maxnreg", "most registers", "another limit of registers"),
          std::tuple(".reqnctapercluster", "cluster",
                     "a cluster that the launch has to state, or cannot choose")}) {
      std::string value = "not said";
      for (const ptx::Directive& d : code_.function->directives)
        if (d.tokens[0] == name)
          value = fmt::format("{}", fmt::join(d.tokens.begin() + 1, d.tokens.end(), ""));
      add(name[1] == 'r' ? Weight::detail : Weight::resources, kind, value, effect);
    }
    int64_t bytes = 0;
    for (const Variable& v : code_.variables)
      if (v.space == ".shared") bytes += v.bytes;
    add(Weight::resources, "static shared memory", fmt::format("{} B", bytes), "fewer CTAs or stages");
    declarations();
    for (const auto& [word, kind, effect] :
         {std::tuple(
              "wait", "waits for the launch ahead",
              "a launch that begins only when the one ahead has ended, or reads what is not there yet"),
          std::tuple("launch_dependents", "lets the next launch begin",
                     "a next launch whose start is not hidden behind this one's end")}) {
      std::set<std::string> who;
      const Test test = [&, name = word](const Operation& o) {
        return o.is("griddepcontrol") && o.has(name);
      };
      for (int i : all_)
        if (test(operation(i))) who.insert(role_of(graph_.block_of[at(i)]));
      add(Weight::pipeline, kind, joined({who.begin(), who.end()}), effect, line(all_, test));
    }
  }

  // What stands ahead of the first instruction and is said by no other fact.
  void declarations() {
    int64_t align = 1;
    std::string data;
    for (const Variable& v : code_.variables) {
      if (v.space == ".shared") align = std::max(align, v.align);
      if (!v.initializer.empty()) data += fmt::format("{} {} {};", v.space, v.bytes, v.initializer);
    }
    add(Weight::result, "alignment of shared memory", fmt::format("{} B", align),
        "tiles that lie otherwise than their swizzle or a descriptor says");
    add(Weight::result, "data that the module brings",
        data.empty() ? "none" : fmt::format("#{:016x}", std::hash<std::string>()(data)), "other constants");
    std::vector<std::string> parameters, others;
    for (const ptx::Declaration& d : code_.function->parameters) {
      std::string text = d.qualifiers.empty() ? "" : d.qualifiers.back();
      if (!d.names.empty())
        for (const std::string& extent : d.names[0].extents) text += fmt::format("[{}]", extent);
      parameters.push_back(text);
    }
    constexpr std::array told = {".minnctapersm", ".maxnreg", ".reqnctapercluster", ".maxntid", ".reqntid"};
    for (const ptx::Directive& d : code_.function->directives)
      if (std::find(told.begin(), told.end(), d.tokens[0]) == told.end())
        others.push_back(fmt::format("{}", fmt::join(d.tokens, "")));
    add(Weight::detail, "parameters", joined(parameters),
        "arguments that the launch has to lay out otherwise");
    add(Weight::detail, "other directives", joined(others), "another launch");
    add(Weight::detail, "target", code_.target.empty() ? "not said" : code_.target, "other GPUs that run it");
  }

  void roles() {
    region("roles");
    std::set<std::string> of_producer;
    for (const char* name : {"producer", "consumer", "all", "other"}) {
      size_t warps = 0;
      std::set<std::string> registers;
      for (const Role& role : p_.roles)
        if (role.name == name) {
          warps += role.warps.size();
          registers.insert(role.registers ? fmt::format("{} registers", *role.registers)
                                          : "registers as launched");
        }
      std::string words = fmt::format("{} warp{}", warps, warps == 1 ? "" : "s");
      // Idle warps beside the producer have what it has.
      if (*name != 'o' || registers != of_producer)
        words += fmt::format(" of {}", fmt::join(registers, " or "));
      if (*name == 'p') of_producer = registers;
      add(Weight::resources, name, warps ? words : "none",
          "spills where there are too few, and other warps lack what is too much");
    }
    const auto producer =
        std::find_if(p_.roles.begin(), p_.roles.end(), [](const Role& r) { return r.name == "producer"; });
    add(Weight::protocol, "the producer is",
        producer == p_.roles.end() ? "none"
        : producer->warps[0] == 0  ? "the first warp"
                                   : fmt::format("warp {}", producer->warps[0]),
        "other warps that wait, or registers given to others");
  }

  // The stage of an address, and what it is at first.
  const Atom* stage_in(const Sum& address) const {
    for (const auto& [number, factor] : address.terms)
      if (const Atom& a = values_.atom(number); a.kind == Atom::Kind::stage) return &a;
    return nullptr;
  }

  void ring() {
    region("ring");
    const BarrierArray *full = barrier("full"), *empty = barrier("empty");
    add(Weight::pipeline, "stages", full ? std::to_string(full->count) : "none",
        "how many loads are ahead of the products");
    std::set<int64_t> of_loads, of_products;  // as many as each goes through
    for (int i : loads_)
      if (operation(i).is_bulk_load())
        if (const Atom* stage = stage_in(operand(i, 0))) of_loads.insert(stage->inputs[1].constant);
    for (int i : products_)
      if (operation(i).is_wgmma())
        if (const auto d = decode_descriptor(values_, operand(i, 2)))
          if (const Atom* stage = stage_in(d->address)) of_products.insert(stage->inputs[1].constant);
    add(Weight::result, "loads go through as many stages as products",
        of_loads == of_products || of_products.empty()
            ? "yes"
            : fmt::format("no, {} of loads and {} of products", fmt::join(of_loads, " or "),
                          fmt::join(of_products, " or ")),
        "loads into other stages than are read");
    std::vector<std::string> bytes;
    for (int i : loads_)
      if (operation(i).is_bulk_load())
        for (const auto& [number, factor] : operand(i, 0).terms)
          if (values_.atom(number).kind == Atom::Kind::stage) bytes.push_back(fmt::format("{} B", factor));
    add(Weight::result, "from a stage to the next", joined(bytes), "another tile",
        line(loads_, &Operation::is_bulk_load));
    std::vector<std::string> expected;
    uint32_t expected_at = 0;
    bool by_parameter = true;
    if (full)
      for (const BarrierUse& use : full->uses)
        if (use.kind == BarrierUse::Kind::expects) {
          by_parameter &= values_.only_atom(use.amount, "ld") != nullptr;
          by_parameter &= values_.only_atom(use.amount, "ld") != nullptr;
          expected.push_back(use.amount.is_constant()              ? fmt::format("{} B", use.amount.constant)
                             : values_.only_atom(use.amount, "ld") ? "what a parameter says"
                                                                   : "what is computed");
          expected_at = operation(use.operation).at.line;
        }
    add(by_parameter ? Weight::detail : Weight::protocol, "bytes expected", joined(expected),
        by_parameter ? "another number, if the parameter holds one" : "a phase that ends too early, or never",
        expected_at);
    for (const auto& [array, kind] :
         {std::pair(full, "arrivals that fill a stage"), std::pair(empty, "arrivals that free a stage")})
      add(Weight::protocol, kind,
          !array            ? "none"
          : array->arrivals ? std::to_string(*array->arrivals)
                            : "unknown",
          "a phase that ends too early, or never, unless as many threads arrive; more arrivals cost more "
          "messages");
    std::set<std::string> first;
    uint32_t waits_at = 0;
    for (int i : loads_)
      if (is_wait(operation(i))) first.insert(first_parity(i)), waits_at = operation(i).at.line;
    add(Weight::protocol, "the producer's first parity", joined({first.begin(), first.end()}),
        "a wait that passes at once, or never", waits_at);
    std::set<std::string> forms;
    for (int i : both_loops()) {
      const Operation& o = operation(i);
      if (!is_wait(o)) continue;
      const bool hinted = o.operands.size() > 3;
      forms.insert(plain(o) + (hinted ? fmt::format(", at most {} ns", values_.text(operand(i, 3), 1)) : ""));
    }
    add(Weight::detail, "waits of the loops", joined({forms.begin(), forms.end()}),
        "how long a thread sleeps between two looks");
  }
  Operations both_loops() const {
    Operations both = loads_;
    both.insert(both.end(), products_.begin(), products_.end());
    std::sort(both.begin(), both.end());
    both.erase(std::unique(both.begin(), both.end()), both.end());
    return both;
  }
  // The constants that a parity may be at first: those that meet ahead of its loops.
  std::string first_parity(int i) {
    Sum parity;
    for (size_t n = 0; n + 1 < operation(i).operands.size(); ++n)
      if (operation(i).operands[n].kind == Value::Kind::address) parity = operand(i, n + 1);
    std::set<int64_t> constants;
    std::set<int> seen;
    gather_constants(parity, constants, seen);
    if (constants.empty()) return "computed";
    return fmt::format("{}", fmt::join(constants, " or "));
  }
  void gather_constants(const Sum& sum, std::set<int64_t>& constants, std::set<int>& seen) const {
    if (sum.is_constant()) {
      constants.insert(sum.constant & 1);
      return;
    }
    const Atom* a = values_.only_atom(sum, "meet");
    if (!a || !seen.insert(sum.terms[0].first).second) return;
    for (const Sum& input : a->inputs) gather_constants(input, constants, seen);
  }

  void copies() {
    region("copies in");
    std::vector<std::string> dimensions, masks, hints, steps;
    for (int i : loads_) {
      const Operation& o = operation(i);
      if (!o.is_bulk_load()) continue;
      std::string dimension = "bulk", step = "?";
      for (std::string_view word : o.words)
        if (word.size() == 2 && word[1] == 'd') dimension = word;
      std::vector<Sum> others;  // behind the barrier
      for (size_t n = 0; n < o.operands.size(); ++n) {
        if (o.operands[n].kind != Value::Kind::address) {
          others.push_back(operand(i, n));
        } else if (o.operands[n].parts.size() > 1) {
          step = step_of(i, o.operands[n].parts[1]);
        }
      }
      const bool multicast = o.has("multicast::cluster"), hinted = o.has("L2::cache_hint");
      dimensions.push_back(dimension);
      steps.push_back(step);
      masks.push_back(!multicast || others.empty() ? "no"
                      : others[0].is_constant()    ? fmt::format("to CTAs {:#x}", others[0].constant)
                                                   : "to CTAs by a computed mask");
      hints.push_back(hinted && !others.empty() ? policy(others.back()) : "none");
    }
    const uint32_t at_line = line(loads_, &Operation::is_bulk_load);
    add(Weight::result, "number", std::to_string(dimensions.size()), "more instructions for the same box",
        at_line);
    add(Weight::result, "dimensions", alike(dimensions), "another tensor map, such as with a batch", at_line);
    add(Weight::result, "multicast", alike(masks), "tiles that L2 is read for once by each CTA", at_line);
    add(Weight::detail, "cache policy", alike(hints), "other data that L2 keeps", at_line);
    add(Weight::result, "along the tensors an iteration", alike(steps), "another part of the tensor",
        at_line);
    add_other_work("other instructions", loads_);
  }
  // How far coordinates go on in an iteration: the one that does.
  std::string step_of(int i, const Value& coordinates) {
    for (const Value& part : coordinates.parts) {
      int64_t step = 0;
      for (const auto& [number, factor] : values_.of(i, part).terms)
        if (const Atom& a = values_.atom(number); a.kind == Atom::Kind::counter && load_loop_ &&
                                                  graph_.blocks[at(a.block)].loop == load_loop_->loop)
          step += factor * a.inputs[1].constant;
      if (step) return fmt::format("{}", step);
    }
    return "none that is known";
  }
  // Integer work and control, of which moves are none.
  void add_other_work(const char* kind, const Operations& loop) {
    const Test test = [](const Operation& o) {
      return !is_product(o) && !o.is_bulk_load() && !o.is("mov") && !o.is("wgmma") && !o.is("mbarrier") &&
             !o.is("cvta") && !o.is("fence");
    };
    add_count(Weight::detail, kind, loop, test, "issue slots that the loop's own work takes");
  }

  // Where a matrix lies, without what differs by stage: bytes from where the first one is, for each warp.
  std::string along_k(size_t n) {
    std::vector<std::string> steps;
    std::optional<MatrixDescriptor> first;
    for (int i : products_) {
      if (!operation(i).is_wgmma()) continue;
      if (operation(i).operands[n].kind == Value::Kind::vector) return "registers";
      const auto d = decode_descriptor(values_, operand(i, n));
      if (!d) return "unknown descriptors";
      if (!first) first = d;
      // In an unrolled loop each stage is counted anew.
      if (d->address.terms != first->address.terms) first = d;
      steps.push_back(fmt::format("{}", d->address.constant - first->address.constant));
    }
    return steps.empty() ? "none" : fmt::format("at {} B", folded(steps));
  }
  std::string form(size_t n) {
    std::set<std::string> forms;
    for (int i : products_) {
      if (!operation(i).is_wgmma()) continue;
      if (operation(i).operands[n].kind == Value::Kind::vector) {
        forms.insert("registers");
      } else if (const auto d = decode_descriptor(values_, operand(i, n))) {
        forms.insert(fmt::format("{}, stride {} B, leading {} B{}", layout_name(*d), d->stride_bytes,
                                 d->leading_bytes,
                                 d->base_offset ? fmt::format(", base offset {}", d->base_offset) : ""));
      } else {
        forms.insert("an unknown descriptor");
      }
    }
    return forms.empty() ? "none" : fmt::format("{}", fmt::join(forms, " and "));
  }
  // What the warps of the loop add to the address of a matrix.
  std::string by_warp(size_t n) {
    const auto product =
        std::find_if(products_.begin(), products_.end(), [&](int i) { return operation(i).is_wgmma(); });
    if (product == products_.end() || operation(*product).operands[n].kind == Value::Kind::vector)
      return "none";
    const auto d = decode_descriptor(values_, operand(*product, n));
    if (!d) return "unknown";
    Sum added;
    for (const auto& term : d->address.terms)
      if (const Atom& a = values_.atom(term.first);
          a.kind == Atom::Kind::special || a.kind == Atom::Kind::function)
        added.terms.push_back(term);
    std::map<int64_t, int> warps;  // how many have each offset: which of them is a matter of counting
    for (const Role& role : p_.roles)
      if (product_loop_->role == kNone || &role == &p_.roles[at(product_loop_->role)])
        for (int warp : role.warps) {
          const std::optional<int64_t> offset = ThreadValues(values_, warp * hopper::warp_threads)(added);
          if (!offset) return "unknown";
          ++warps[*offset];
        }
    std::vector<std::string> words;
    for (const auto& [offset, times] : warps)
      words.push_back(fmt::format("{} warps at {} B", times, offset - warps.begin()->first));
    return joined(words);
  }

  // The instructions of the loop in order, as what they do.
  std::vector<std::string> order() {
    std::vector<std::string> words;
    for (int i : products_) {
      const Operation& o = operation(i);
      std::string word;
      if (is_product(o))
        word = "products";
      else if (o.is("wgmma") && o.has("fence"))
        word = "fence";
      else if (o.is("wgmma") && o.has("commit_group"))
        word = "commit";
      else if (o.is("wgmma") && o.has("wait_group"))
        word = fmt::format("wait until {} groups are left", values_.text(operand(i, 0)));
      else if (is_wait(o))
        word = fmt::format("wait for {}", barrier_of(i));
      else if (o.is("mbarrier"))
        word = fmt::format("arrive at {}", barrier_of(i));
      else if (o.is_bulk_load())
        word = "copy in";
      else if (o.is("bar") || o.is("barrier"))
        word = "meet";
      else if (o.is("fence"))
        word = plain(o);
      else if (o.is("add") && o.has("f32"))
        word = "add in f32";
      if (!word.empty() && (words.empty() || words.back() != word)) words.push_back(word);
    }
    return words;
  }
  std::string barrier_of(int i) const {
    for (const BarrierArray& array : p_.barriers)
      for (const BarrierUse& use : array.uses)
        if (use.operation == i) return array.name;
    return "an unknown barrier";
  }

  void products() {
    region("mainloop");
    std::map<std::string, int> shapes;
    std::set<std::string> scales;
    for (int i : products_) {
      if (!is_product(operation(i))) continue;
      const std::string& opcode = operation(i).text->opcode;
      ++shapes[operation(i).is_wgmma() ? opcode.substr(opcode.find(".m64") + 1) : plain(operation(i))];
      std::vector<std::string> immediates;
      for (size_t n = 4; n < operation(i).operands.size(); ++n)
        immediates.push_back(values_.text(operand(i, n), 1));
      if (operation(i).is_wgmma()) scales.insert(joined(immediates));
    }
    std::vector<std::string> words;
    for (const auto& [shape, times] : shapes) words.push_back(fmt::format("{} x {}", times, shape));
    const Test product = is_product;
    const uint32_t at_line = line(products_, product);
    add(Weight::result, "products an iteration", joined(words),
        "another product, or more instructions for the same", at_line);
    add(Weight::result, "scales and transposes", joined({scales.begin(), scales.end()}),
        "a negated or transposed operand", at_line);
    for (const auto& [n, names] : {std::pair(size_t{1}, std::array{"A", "places of A", "A by warp"}),
                                   std::pair(size_t{2}, std::array{"B", "places of B", "B by warp"})}) {
      add(Weight::result, names[0], form(n), "operands read from elsewhere, or bank conflicts", at_line);
      add(Weight::result, names[1], along_k(n), "operands read from elsewhere, or in another order", at_line);
      add(Weight::result, names[2], by_warp(n), "operands read from elsewhere", at_line);
    }
    add(Weight::result, "order", folded(order()), "sums or stages used too early, or tensor cores that idle",
        at_line);
    std::set<std::string> left;
    const Test group = [](const Operation& o) { return o.is("wgmma") && o.has("wait_group"); };
    for (int i : products_)
      if (group(operation(i))) left.insert(values_.text(operand(i, 0)));
    add(Weight::pipeline, "groups left under way", joined({left.begin(), left.end()}),
        "with 0, tensor cores that idle between stages unless another warpgroup has products; with 1, a "
        "stage "
        "that is held one step longer",
        line(products_, group));
    add(Weight::pipeline, "a stage is freed", freed(), "how soon the next load begins",
        line(products_, [](const Operation& o) { return o.is("mbarrier") && o.has("arrive"); }));
    add_count(
        Weight::result, "sums added up in f32", products_,
        [](const Operation& o) { return o.is("add") && o.has("f32"); }, "another rounding, and issue slots");
    std::vector<int> ahead = p_.products_outside;
    add_kinds(Weight::pipeline, "products outside of the loop", ahead, product,
              "a first stage of its own, or products that are woven into other work");
    add_other_work("other instructions", products_);
  }

  // Whether what frees a stage is of the ring position that was just multiplied.
  std::string freed() {
    const Atom* multiplied = nullptr;
    std::set<std::string> words;
    for (int i : products_) {
      const Operation& o = operation(i);
      if (o.is_wgmma() && o.operands[2].kind != Value::Kind::vector)
        if (const auto d = decode_descriptor(values_, operand(i, 2))) multiplied = stage_in(d->address);
      if (!o.is("mbarrier") || !o.has("arrive") || barrier_of(i) != "empty") continue;
      const size_t place = o.operands.empty() || o.operands[0].kind == Value::Kind::address ? 0 : 1;
      Sum address = operand(i, place);
      const Atom* mapped = values_.only_atom(address, "mapa");
      if (mapped) address = mapped->inputs[0];
      const Atom* stage = stage_in(address);
      const bool ahead = std::any_of(address.terms.begin(), address.terms.end(), [&](const auto& term) {
        return values_.atom(term.first).name.starts_with("selp");
      });
      words.insert(fmt::format("{}{}",
                               ahead                   ? "the one ahead of it"
                               : !stage || !multiplied ? "which one is unknown"
                               : stage == multiplied   ? "the one multiplied last"
                                                       : "the one ahead of it",
                               mapped ? ", across the cluster" : ""));
    }
    return joined({words.begin(), words.end()});
  }

  // Of a kernel that has a loop of tiles, what consumers do in it; else what they do outside of the main
  // loop.
  void find_epilogue() {
    std::set<int> inside(products_.begin(), products_.end());
    if (product_loop_) {
      int outer = product_loop_->loop;
      while (graph_.loops[at(outer)].parent != kNone) outer = graph_.loops[at(outer)].parent;
      if (outer != product_loop_->loop) tile_loop_ = outer;
    }
    auto outside = [&](const std::vector<int>& blocks) {
      Operations rest = operations_of(blocks);
      std::erase_if(rest, [&](int i) { return inside.contains(i); });
      return rest;
    };
    auto stores = [&](const Operations& all) {
      return count(all, [](const Operation& o) { return is_store(o) || (o.is("st") && !o.has("shared")); });
    };
    if (tile_loop_ != kNone) epilogue_ = outside(longest_path(graph_.loops[at(tile_loop_)].blocks));
    if (stores(epilogue_) > 0) return;
    std::vector<int> blocks = graph_.order;
    std::erase_if(blocks, [&](int b) { return role_of(b) == "producer"; });
    epilogue_ = outside(longest_path(blocks));
  }

  // Of branches that exclude each other, such as a store with and without other work, one: that of most
  // stores, and then of most instructions. What loops back is not followed.
  std::vector<int> longest_path(const std::vector<int>& blocks) const {
    std::vector<bool> chosen(graph_.blocks.size(), false), met = chosen;
    for (int block : blocks) chosen[at(block)] = true;
    std::vector<std::pair<size_t, size_t>> length(graph_.blocks.size());
    std::vector<int> from(graph_.blocks.size(), kNone);
    int last = kNone;
    for (int block : graph_.order) {
      if (!chosen[at(block)]) continue;
      const Block& b = graph_.blocks[at(block)];
      for (int predecessor : b.predecessors)
        if (met[at(predecessor)] &&
            (from[at(block)] == kNone || length[at(predecessor)] > length[at(from[at(block)])]))
          from[at(block)] = predecessor;
      if (from[at(block)] != kNone) length[at(block)] = length[at(from[at(block)])];
      for (int i = b.first; i < b.last; ++i) length[at(block)].first += is_store(operation(i));
      length[at(block)].second += static_cast<size_t>(b.last - b.first);
      met[at(block)] = true;
      if (last == kNone || length[at(block)] > length[at(last)]) last = block;
    }
    std::vector<int> path;
    for (; last != kNone; last = from[at(last)]) path.push_back(last);
    return path;
  }

  void epilogue() {
    region("epilogue");
    add_forms(
        Weight::result, "conversions", all_,
        [](const Operation& o) { return o.is("cvt") && o.has("f32") && !o.has("u32") && !o.has("s32"); },
        "another rounding");
    // Without that of integers, which are divided so.
    Operations floats = epilogue_;
    std::erase_if(floats, [&](int i) {
      for (const Value& v : operation(i).operands)
        if (const Atom* from = values_.only_atom(values_.of(i, v), "cvt");
            from && from->name.ends_with(".32"))
          return true;
      return false;
    });
    add_kinds(
        Weight::result, "arithmetic in f32", floats,
        [](const Operation& o) {
          return (o.is("mul") || o.is("fma") || o.is("add")) && (o.has("f32") || o.has("f32x2"));
        },
        "a factor or a term that the other does not have, and issue slots");
    add_kinds(
        Weight::detail, "into shared memory", epilogue_,
        [](const Operation& o) { return o.is("stmatrix") || (o.is("st") && o.has("shared")); },
        "more instructions for the same, or bank conflicts");
    add_kinds(Weight::result, "out of shared memory", epilogue_, is_store, "other boxes, or more of them");
    // For each store, so that larger boxes are one difference.
    const size_t stores = count(epilogue_, is_store);
    for (const auto& [kind, test, effect] :
         {std::tuple("fences", Test([](const Operation& o) { return o.is("fence") && o.has("proxy"); }),
                     "copies that read shared memory before it is written, or more fences than needed"),
          std::tuple("groups of stores", Test([](const Operation& o) {
                       return o.is("cp") && o.has("bulk") && o.has("commit_group");
                     }),
                     "a wait that does not cover a store")}) {
      const size_t times = count(epilogue_, test);
      add(Weight::result, kind,
          stores == 0       ? std::to_string(times)
          : times == stores ? "one for each store"
                            : fmt::format("{} for {} stores", times, stores),
          effect, line(epilogue_, test));
    }
    std::set<std::string> left;
    const Test waits = [](const Operation& o) { return o.is("cp") && o.has("wait_group"); };
    for (int i : epilogue_)
      if (waits(operation(i))) left.insert(values_.text(operand(i, 0)));
    add(Weight::pipeline, "stores left under way", joined({left.begin(), left.end()}),
        "shared memory that is overwritten while it is read, or stores that are waited for sooner",
        line(epilogue_, waits));
    std::map<std::string, int> meetings;
    const Test meets = [](const Operation& o) {
      return (o.is("bar") || o.is("barrier")) && !o.has("cluster");
    };
    for (int i : epilogue_)
      if (meets(operation(i)))
        ++meetings[operation(i).operands.size() > 1
                       ? fmt::format("of {} threads", values_.text(operand(i, 1), 1))
                       : "of all threads"];
    std::vector<std::string> words;
    for (const auto& [who, times] : meetings) words.push_back(fmt::format("{} {}", times, who));
    add(Weight::pipeline, "meetings", joined(words), "threads that wait for more others, or more often",
        line(epilogue_, meets));
    size_t woven = 0;
    bool stored = false;
    for (int i : epilogue_) {
      stored |= is_store(operation(i));
      woven += stored && is_product(operation(i));
    }
    add(Weight::pipeline, "products among the stores", std::to_string(woven),
        "tensor cores that idle while a tile is stored",
        line(epilogue_, [](const Operation& o) { return is_product(o); }));
  }

  void schedule() {
    region("schedule");
    add(Weight::pipeline, "tiles of a CTA", tile_loop_ == kNone ? "one" : "several, in a loop",
        "a start and an end for each tile that nothing hides");
    Operations tiles;
    for (const auto& loop : {product_loop_, load_loop_}) {
      if (!loop) continue;
      int outer = loop->loop;
      while (graph_.loops[at(outer)].parent != kNone) outer = graph_.loops[at(outer)].parent;
      const Operations more = operations_of(graph_.loops[at(outer)].blocks);
      tiles.insert(tiles.end(), more.begin(), more.end());
    }
    std::sort(tiles.begin(), tiles.end());
    tiles.erase(std::unique(tiles.begin(), tiles.end()), tiles.end());
    add_count(
        Weight::detail, "divisions for a tile's place", tiles,
        [](const Operation& o) {
          return o.is("div") || o.is("rem") || (o.is("cvt") && o.has("rzi")) || (o.is("mul") && o.has("hi"));
        },
        "time between two tiles");
    add_kinds(
        Weight::protocol, "atomic operations", all_,
        [](const Operation& o) { return o.is("atom") || o.is("red") || (o.is("ld") && o.has("acquire")); },
        "tiles that CTAs share, or how they find their next one");
    add_kinds(
        Weight::result, "sums through memory", all_,
        [](const Operation& o) { return o.is("st") && o.has("global"); },
        "stores by threads, such as of parts of a sum");
    std::vector<std::string> turns;
    for (const BarrierArray& array : p_.barriers)
      if (array.name.starts_with("other"))
        turns.push_back(fmt::format("{} of {} arrivals", array.count,
                                    array.arrivals ? std::to_string(*array.arrivals) : "unknown"));
    add(Weight::protocol, "barriers for other ends", joined(turns),
        "turns of warpgroups, or loads of the epilogue");
  }

  void start_and_end() {
    region("start and end");
    auto of_all = [&](const Test& test, bool at_start) {
      std::vector<std::string> words;
      const int first_loop = load_loop_      ? graph_.loops[at(load_loop_->loop)].header
                             : product_loop_ ? graph_.loops[at(product_loop_->loop)].header
                                             : kNone;
      for (int i : all_) {
        const int block = graph_.block_of[at(i)];
        if (!test(operation(i)) || graph_.blocks[at(block)].loop != kNone) continue;
        const bool ahead = first_loop == kNone || graph_.dominates(block, first_loop);
        if (ahead != at_start) continue;
        std::string word = plain(operation(i));
        if (words.empty() || words.back() != word) words.push_back(std::move(word));
      }
      return joined(words);
    };
    const Test meets = [](const Operation& o) { return o.is("bar") || o.is("barrier"); };
    add(Weight::protocol, "meeting ahead of the loops", of_all(meets, true),
        "barriers that others find not set up");
    add(Weight::protocol, "cluster's meeting at the end",
        of_all([&](const Operation& o) { return meets(o) && o.has("cluster"); }, false),
        "a CTA that is gone when another reaches into it");
    size_t drains = 0;
    for (int i : all_)
      drains += is_wait(operation(i)) && barrier_of(i) == "empty" &&
                std::find(loads_.begin(), loads_.end(), i) == loads_.end();
    add(Weight::protocol, "waits for freed stages at the end", std::to_string(drains),
        "a CTA that is gone when another frees a stage of it");
    add(Weight::result, "fence of barriers",
        count(all_, [](const Operation& o) { return o.has("mbarrier_init"); }) ? "yes" : "no",
        "barriers that other CTAs find not set up");
    add_count(
        Weight::detail, "tensor maps fetched ahead", all_,
        [](const Operation& o) { return o.is("prefetch") && o.has("tensormap"); },
        "a first load that waits for its tensor map");
  }

  // What could not be decided counts as a difference, unless the other kernel has as many of the same.
  void unknowns() {
    region("unknown");
    std::map<std::string, int> counts;
    for (const std::string& what : p_.unknowns) ++counts[what.substr(0, what.find(" at line"))];
    for (const auto& [what, times] : counts)
      regions_.back().events.push_back(
          {.kind = what,
           .weight = Weight::protocol,
           .attributes = {{Weight::protocol, "", std::to_string(times), "what it does could not be decided"}},
           .effect = "what it does could not be decided"});
  }

  const Portrait& p_;
  const Code& code_;
  const Graph& graph_;
  Values& values_;
  const Mainloop *product_loop_ = nullptr, *load_loop_ = nullptr;
  int tile_loop_ = kNone;
  Operations products_, loads_, epilogue_, all_;
  std::vector<Region> regions_;
};

}  // namespace

std::vector<Region> facts(const Portrait& portrait, const Code& code, const Graph& graph, Values& values) {
  return Facts(portrait, code, graph, values).run();
}

}  // namespace ptxbuilder::analysis
