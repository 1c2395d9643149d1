#include "runtime/emulator/entry.h"

#include <fmt/format.h>

#include "runtime/emulator/decode/decoder.h"

namespace ptxbuilder::runtime {
namespace {

// Returns the extents in a directive. The directive ".reqntid 128, 2" has the tokens ".reqntid", "128", ",",
// "2". Omitted extents are 1.
Dim3 extents(const ptx_text::Directive& d) {
  auto at = [&](size_t i) {
    return 2 * i + 1 < d.tokens.size() ? emulator::to_number(d.tokens[2 * i + 1]) : 1;
  };
  return {at(0), at(1), at(2)};
}

void add_shared(const std::vector<ptx_text::Statement>& statements, Entry& e) {
  for (const ptx_text::Statement& s : statements) {
    add_shared(s.block, e);
    if (s.kind != ptx_text::Statement::Kind::declaration || !s.declaration.has(".shared")) continue;
    for (const ptx_text::Declarator& name : s.declaration.names)
      if (s.declaration.has(".extern"))
        e.dynamic_shared = true;
      else
        e.static_shared_bytes += emulator::Decoder::size_of(s.declaration, name);
  }
}

Entry entry(const ptx_text::Module& module, const ptx_text::Function& f) {
  Entry e;
  add_shared(module.statements, e);
  add_shared(f.body, e);
  e.name = f.name;
  for (const ptx_text::Declaration& d : f.parameters)
    e.parameters.push_back({d.names[0].name, static_cast<uint32_t>(emulator::Decoder::size_of(d, d.names[0])),
                            emulator::Decoder::align_of(d, d.names[0])});
  for (const ptx_text::Directive& d : f.directives) {
    const Dim3 value = extents(d);
    if (d.tokens[0] == ".reqntid") e.block = value;
    if (d.tokens[0] == ".maxntid") e.threads = value.x * value.y * value.z;
    if (d.tokens[0] == ".reqnctapercluster") e.cluster = value;
  }
  return e;
}

// Returns what the kernel requires of a launch, as names and values.
std::vector<std::pair<std::string, std::string>> asks(const Entry& e) {
  auto text = [](const std::optional<Dim3>& d) {
    return d ? fmt::format("{} x {} x {}", d->x, d->y, d->z) : "any";
  };
  std::vector<std::pair<std::string, std::string>> all = {
      {"the number of parameters", std::to_string(e.parameters.size())}};
  for (size_t i = 0; i < e.parameters.size(); ++i)
    all.emplace_back(fmt::format("parameter {}", i),
                     fmt::format("{} B aligned to {}", e.parameters[i].bytes, e.parameters[i].align));
  all.emplace_back("the most threads (.maxntid)", e.threads ? std::to_string(*e.threads) : "any");
  all.emplace_back("the block (.reqntid)", text(e.block));
  all.emplace_back("the cluster (.reqnctapercluster)", text(e.cluster));
  all.emplace_back("static shared memory", fmt::format("{} B", e.static_shared_bytes));
  all.emplace_back("dynamic shared memory (.extern .shared)", e.dynamic_shared ? "declared" : "not declared");
  return all;
}

Entry entry_named(const std::string& ptx, const std::string& kernel) {
  std::string names;
  for (Entry& e : entries(ptx)) {
    if (e.name == kernel) return std::move(e);
    names += (names.empty() ? "" : ", ") + e.name;
  }
  throw Error(fmt::format("it has no kernel '{}'; its kernels are {}", kernel,
                          names.empty() ? "none at all" : names));
}

}  // namespace

std::vector<Entry> entries(const std::string& ptx) {
  std::vector<Entry> all;
  const ptx_text::Module module = ptx_text::parse(ptx);
  for (const ptx_text::Statement& s : module.statements)
    if (s.kind == ptx_text::Statement::Kind::function && s.function[0].entry && s.function[0].has_body)
      all.push_back(entry(module, s.function[0]));
  return all;
}

void check_replaces(const std::string& edited, const std::string& original, const std::string& kernel) {
  const auto is = asks(entry_named(edited, kernel)), was = asks(entry_named(original, kernel));
  for (size_t i = 0; i < was.size(); ++i)
    if (i >= is.size() || is[i] != was[i])
      throw Error(fmt::format("it cannot replace kernel '{}': {} is {}, but the kernel's is {}", kernel,
                              was[i].first, i < is.size() ? is[i].second : "missing", was[i].second));
}

}  // namespace ptxbuilder::runtime
