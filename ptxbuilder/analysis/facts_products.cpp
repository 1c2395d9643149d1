// Collects facts about the loop that computes the products.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "ptxbuilder/analysis/facts_kernel.h"
#include "ptxbuilder/analysis/thread_values.h"
#include "ptxbuilder/isa/hopper.h"

namespace ptxbuilder::analysis {

void Facts::products() {
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
  add(Weight::result, "products in an iteration", joined(words),
      "another product, or more instructions for the same product", at_line);
  add(Weight::result, "scales and transposes", joined({scales.begin(), scales.end()}),
      "a negated or transposed operand", at_line);
  for (const auto& [n, names] : {std::pair(size_t{1}, std::array{"A", "places of A", "A by warp"}),
                                 std::pair(size_t{2}, std::array{"B", "places of B", "B by warp"})}) {
    add(Weight::result, names[0], form(n), "operands read from elsewhere, or bank conflicts", at_line);
    add(Weight::result, names[1], along_k(n), "operands read from elsewhere, or in another order", at_line);
    add(Weight::result, names[2], by_warp(n), "operands read from elsewhere", at_line);
  }
  add(Weight::result, "order", folded(order()),
      "sums or stages that are used too early, or idle tensor cores", at_line);
  std::set<std::string> left;
  const Test group = [](const Operation& o) { return o.is("wgmma") && o.has("wait_group"); };
  for (int i : products_)
    if (group(operation(i))) left.insert(values_.text(operand(i, 0)));
  add(Weight::pipeline, "groups left under way", joined({left.begin(), left.end()}),
      "with 0, tensor cores idle between stages unless another warpgroup has products; with 1, a stage is "
      "held one step longer",
      line(products_, group));
  add(Weight::pipeline, "a stage is freed", freed(), "how soon the next load begins",
      line(products_, [](const Operation& o) { return o.is("mbarrier") && o.has("arrive"); }));
  add_count(
      Weight::result, "sums added up in f32", products_,
      [](const Operation& o) { return o.is("add") && o.has("f32"); }, "another rounding, and issue slots");
  std::vector<int> ahead = p_.products_outside;
  add_kinds(Weight::pipeline, "products outside of the loop", ahead, product,
            "a separate first stage, or products that are interleaved with other work");
  add_other_work("other instructions", products_);
}

std::string Facts::along_k(size_t n) {
  std::vector<std::string> steps;
  std::optional<MatrixDescriptor> first;
  for (int i : products_) {
    if (!operation(i).is_wgmma()) continue;
    if (operation(i).operands[n].kind == Value::Kind::vector) return "registers";
    const auto d = decode_descriptor(values_, operand(i, n));
    if (!d) return "unknown descriptors";
    if (!first) first = d;
    // In an unrolled loop, each stage begins with a new first address.
    if (d->address.terms != first->address.terms) first = d;
    steps.push_back(fmt::format("{}", d->address.constant - first->address.constant));
  }
  return steps.empty() ? "none" : fmt::format("at {} B", folded(steps));
}

std::string Facts::form(size_t n) {
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

std::string Facts::by_warp(size_t n) {
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
  std::map<int64_t, int> warps;  // number of warps at each offset
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

std::vector<std::string> Facts::order() {
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
    else if (o.is_barrier())
      word = "meet";
    else if (o.is("fence"))
      word = plain(o);
    else if (o.is("add") && o.has("f32"))
      word = "add in f32";
    if (!word.empty() && (words.empty() || words.back() != word)) words.push_back(word);
  }
  return words;
}

std::string Facts::freed() {
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
                             ahead                   ? "the previous one"
                             : !stage || !multiplied ? "which one is unknown"
                             : stage == multiplied   ? "the one multiplied last"
                                                     : "the previous one",
                             mapped ? ", across the cluster" : ""));
  }
  return joined({words.begin(), words.end()});
}

}  // namespace ptxbuilder::analysis
