#include "runtime/emulator/entry.h"

#include "runtime/emulator/decode/decoder.h"

namespace ptxbuilder::runtime {
namespace {

// .reqntid 128, 2 has tokens ".reqntid", "128", ",", "2"; extents that are left out are 1.
Dim3 extents(const ptx::Directive& d) {
  auto at = [&](size_t i) {
    return 2 * i + 1 < d.tokens.size() ? emulator::to_number(d.tokens[2 * i + 1]) : 1;
  };
  return {at(0), at(1), at(2)};
}

Entry entry(const ptx::Function& f) {
  Entry e;
  e.name = f.name;
  for (const ptx::Declaration& d : f.parameters)
    e.parameters.push_back({d.names[0].name, static_cast<uint32_t>(emulator::Decoder::size_of(d, d.names[0])),
                            emulator::Decoder::align_of(d, d.names[0])});
  for (const ptx::Directive& d : f.directives) {
    const Dim3 value = extents(d);
    if (d.tokens[0] == ".reqntid") e.block = value;
    if (d.tokens[0] == ".maxntid") e.threads = value.x * value.y * value.z;
    if (d.tokens[0] == ".reqnctapercluster") e.cluster = value;
  }
  return e;
}

}  // namespace

std::vector<Entry> entries(const std::string& ptx) {
  std::vector<Entry> all;
  for (const ptx::Statement& s : ptx::parse(ptx).statements)
    if (s.kind == ptx::Statement::Kind::function && s.function[0].entry && s.function[0].has_body)
      all.push_back(entry(s.function[0]));
  return all;
}

}  // namespace ptxbuilder::runtime
