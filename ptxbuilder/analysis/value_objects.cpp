// Identifies variables, the objects whose addresses are terms of values.
#include <fmt/format.h>

#include <algorithm>

#include "ptxbuilder/analysis/values.h"

namespace ptxbuilder::analysis {

// Returns the variable that represents the object. All arrays in shared memory whose length the host sets
// begin at the same address, so they are one object.
int Values::object_of(int variable) const {
  if (!code_.variables[at(variable)].is_open()) return variable;
  const auto first = std::find_if(code_.variables.begin(), code_.variables.end(),
                                  [](const Variable& v) { return v.is_open(); });
  return static_cast<int>(first - code_.variables.begin());
}

bool Values::is_parameter(const Sum& address) const {
  return std::none_of(address.terms.begin(), address.terms.end(), [&](const auto& term) {
    const Atom& a = atom(term.first);
    return a.kind == Atom::Kind::address && a.name == "param";
  });
}

void Values::find_objects() {
  for (const Variable& v : code_.variables) {
    uint64_t hash = mixed(analysis::hash_of(v.space), analysis::hash_of(v.initializer));
    // For arrays whose length the host sets, the declared size and alignment are not relevant.
    if (!v.is_open())
      hash = mixed(mixed(hash, static_cast<uint64_t>(v.bytes)), static_cast<uint64_t>(v.align));
    declared_.push_back(hash);
  }
  declared_.resize(code_.variables.size() + code_.functions.size(), analysis::hash_of("function"));
  objects_ = declared_;
}

// Numbers the objects in the order in which the instructions with side effects, and the inputs of these
// instructions, use them. The position of other instructions has no effect.
void Values::number_objects() {
  std::vector<bool> met(atoms_.size(), false);
  std::vector<int> waiting;
  const auto add = [&](const Sum& sum) {  // adds the terms in reverse, so that the first term is visited next
    std::vector<int> all;
    for (const auto& term : sum.terms)
      if (!met[at(term.first)]) all.push_back(term.first);
    std::sort(all.begin(), all.end(), [&](int x, int y) { return atom(x).hash > atom(y).hash; });
    waiting.insert(waiting.end(), all.begin(), all.end());
  };
  const auto visit = [&](const Sum& sum) {
    add(sum);
    while (!waiting.empty()) {
      const int number = waiting.back();
      waiting.pop_back();
      if (met[at(number)]) continue;
      met[at(number)] = true;
      const Atom& a = atom(number);
      if (a.object != kNone) number_object(a.object);
      std::vector<const Sum*> inputs;
      for (const Sum& input : a.inputs) inputs.push_back(&input);
      if (a.kind == Atom::Kind::meet)
        std::sort(inputs.begin(), inputs.end(),
                  [&](const Sum* x, const Sum* y) { return hash(*x) < hash(*y); });
      for (auto input = inputs.rbegin(); input != inputs.rend(); ++input) add(**input);
    }
  };
  for (int block : graph_.order)
    for (int i = graph_.blocks[at(block)].first; i < graph_.blocks[at(block)].last; ++i) {
      const Operation& o = code_.operations[at(i)];
      if (o.guard != kNone && o.writes.empty()) visit(before(i, o.guard));
      const bool reaches_memory = std::any_of(o.operands.begin(), o.operands.end(),
                                              [](const Value& v) { return v.kind == Value::Kind::address; });
      if (!o.writes.empty() && !reaches_memory && !o.is("call")) continue;
      for (size_t n = o.updates ? 0 : o.results; n < o.operands.size(); ++n) {
        visit(of(i, o.operands[n]));
        for (const Value& part : o.operands[n].parts) visit(of(i, part));
      }
    }
  identify_objects();
}

// Identifies variables that the host can access. Several of them may have equal declarations. If all
// variables with a declaration are used, they are distinguished by their order of use, and otherwise by their
// position among the declarations.
void Values::identify_objects() {
  std::map<uint64_t, std::pair<int, int>> of_host;  // for each declaration, the number of variables, and the
                                                    // number of used variables
  for (size_t v = 0; v < code_.variables.size(); ++v)
    if (const Variable& variable = code_.variables[v]; variable.is_of_host()) {
      ++of_host[declared_[v]].first;
      of_host[declared_[v]].second += numbering_.variables.contains(variable.declarator);
    }
  std::map<uint64_t, int> places;
  for (size_t v = 0; v < code_.variables.size(); ++v) {
    const Variable& variable = code_.variables[v];
    const auto number = numbering_.variables.find(variable.declarator);
    const int used_as = number == numbering_.variables.end() ? kNone : number->second;
    const auto all_are_used = [&] { return of_host[declared_[v]].first == of_host[declared_[v]].second; };
    uint64_t which = static_cast<uint64_t>(used_as);
    if (variable.is_of_host()) {
      const int place = places[declared_[v]]++;
      if (numbering_.by_name)
        which = analysis::hash_of(variable.name);
      else if (!all_are_used())
        which = mixed(analysis::hash_of("declared"), static_cast<uint64_t>(place));
    }
    objects_[v] = mixed(declared_[v], which);
  }
  const size_t variables = code_.variables.size();
  for (size_t f = 0; f < code_.functions.size(); ++f)
    objects_[variables + f] =
        mixed(declared_[variables + f], static_cast<uint64_t>(numbering_.place(code_.functions[f])));
  // Tables of addresses are distinguished by the objects to which their addresses point.
  const std::vector<uint64_t> alone = objects_;
  for (size_t v = 0; v < variables; ++v)
    for (const Value& mention : code_.variables[v].mentions)
      objects_[v] = mixed(objects_[v], alone[at(object_of(mention))]);
}

int Values::object_of(const Value& mention) const {
  return mention.kind == Value::Kind::callee ? static_cast<int>(code_.variables.size()) + mention.number
                                             : object_of(mention.number);
}

void Values::number_object(int object) {
  if (at(object) >= code_.variables.size()) {
    const ptx_text::Function* function = code_.functions[at(object) - code_.variables.size()];
    if (numbering_.places.try_emplace(function, static_cast<int>(numbering_.functions.size())).second)
      numbering_.functions.push_back(function);
    return;
  }
  const Variable& v = code_.variables[at(object)];
  const auto [known, is_new] = numbering_.variables.try_emplace(v.declarator);
  if (!is_new) return;
  known->second = numbering_.alike[declared_[at(object)]]++;
  numbering_.of_space[v.declarator] = numbering_.in_space[v.space]++;
  for (const Value& mention : v.mentions) number_object(object_of(mention));
}

std::pair<int, int64_t> Values::place_in_memory(const Sum& address) const {
  int place = 0;
  for (const auto& term : address.terms) {
    const Atom& a = atom(term.first);
    if (a.object == kNone || at(a.object) >= code_.variables.size()) continue;
    const auto found = numbering_.of_space.find(code_.variables[at(a.object)].declarator);
    if (found != numbering_.of_space.end()) place = found->second;
  }
  return {place, address.constant};
}

// Returns the state space, such as "shared", if the variable is the only used variable in its space.
// Otherwise returns its name, or a string that is equal in all kernels with the same behaviour.
std::string Values::label(const Atom& address) const {
  if (address.object == kNone) return address.name;
  if (at(address.object) >= code_.variables.size()) {
    const ptx_text::Function* function = code_.functions[at(address.object) - code_.variables.size()];
    return has_names_ ? function->name : fmt::format("function {}", numbering_.place(function) + 1);
  }
  const Variable& v = code_.variables[at(address.object)];
  if (v.is_of_host() && !has_names_)
    return numbering_.by_name ? fmt::format("{} {}", address.name, v.name)
                              : fmt::format("{} #{:08x}", address.name, objects_[at(address.object)] >> 32);
  const auto used = numbering_.in_space.find(v.space);
  if (used == numbering_.in_space.end() || used->second < 2) return address.name;
  if (has_names_) return v.name;
  const auto place = numbering_.of_space.find(v.declarator);
  return place == numbering_.of_space.end() ? address.name
                                            : fmt::format("{} {}", address.name, place->second + 1);
}

}  // namespace ptxbuilder::analysis
