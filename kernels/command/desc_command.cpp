// `ptxb desc` creates and explains the descriptors of matrices in shared memory that wgmma uses.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "kernels/family/commands.h"
#include "ptxbuilder/plan/descriptor.h"

namespace ptxbuilder::command::desc_command {

using Json = nlohmann::ordered_json;

struct Words {
  std::string bits;  // the descriptor to decode
  std::string dtype = "bf16", major = "k", swizzle = "128", order, tile;
  uint32_t address = 0;
  bool json = false;
};

Major major_of(const std::string& word) { return word == "mn" ? Major::mn : Major::k; }

Swizzle swizzle_of(const std::string& word) {
  for (Swizzle s : {Swizzle::b32, Swizzle::b64, Swizzle::b128})
    if (name(s) == word) return s;
  return Swizzle::none;
}

constexpr int kBlock = 64;  // rows of A that an instruction reads

Json to_json(const MatrixDescriptor& d) {
  return {{"descriptor", fmt::format("{:#018x}", d.encode())},
          {"start_address", d.start_address},
          {"leading_byte_offset", d.leading_byte_offset},
          {"stride_byte_offset", d.stride_byte_offset},
          {"base_offset", d.base_offset},
          {"layout_type", d.encode() >> 62},
          {"swizzle", name(d.swizzle)}};
}

int decode(const Words& w, bool major_given) {
  uint64_t bits = 0;
  std::string_view digits = w.bits;
  bool hexadecimal = digits.starts_with("0x") || digits.starts_with("0X");
  if (hexadecimal) digits.remove_prefix(2);
  auto [end, failed] =
      std::from_chars(digits.data(), digits.data() + digits.size(), bits, hexadecimal ? 16 : 10);
  if (failed != std::errc() || end != digits.data() + digits.size() || digits.empty())
    throw UsageError(fmt::format("desc: '{}' must be a 64-bit number, such as 0x4000004000010000", w.bits));
  MatrixDescriptor d = MatrixDescriptor::decode(bits, Where{});
  if (w.json) {
    Json json = to_json(d);
    if (major_given) json["major"] = w.major;
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("{:#018x}\n{}", bits, major_given ? d.explain(major_of(w.major)) : d.explain());
  }
  return 0;
}

// Parses text such as "128x64".
std::pair<int, int> extents(const std::string& tile) {
  int mn = 0, k = 0;
  const char* end = tile.data() + tile.size();
  auto first = std::from_chars(tile.data(), end, mn);
  bool x = first.ec == std::errc() && first.ptr != end && *first.ptr == 'x';
  auto second = x ? std::from_chars(first.ptr + 1, end, k) : first;
  if (!x || second.ec != std::errc() || second.ptr != end || mn > 1 << 16 || k > 1 << 16)
    throw UsageError(fmt::format("desc: --tile '{}' must be MNxK in elements, such as 128x64", tile));
  return {mn, k};
}

int make(const Words& w) {
  auto dtype = dtype_from_name(w.dtype);
  if (!dtype) throw UsageError(fmt::format("desc: --dtype '{}' is not an element type", w.dtype));
  auto [mn, k] = extents(w.tile);
  Major major = major_of(w.major);
  AtomOrder order = default_order(major);
  if (!w.order.empty()) order = w.order == "mn" ? AtomOrder::mn_first : AtomOrder::k_first;
  WgmmaOperand operand(*dtype, major, swizzle_of(w.swizzle), mn, k, order, Where{});
  MatrixDescriptor d = operand.descriptor(w.address);
  int block = mn % kBlock == 0 ? kBlock : mn;
  std::vector<int> along_k = operand.advances_k(), along_mn = operand.advances_mn(block, Where{});
  if (w.json) {
    Json json = to_json(d);
    json.update({{"dtype", w.dtype},
                 {"major", w.major},
                 {"order", name(order)},
                 {"tile", {mn, k}},
                 {"bytes", operand.bytes()},
                 {"atom", {operand.atom_mn(), operand.atom_k()}},
                 {"instruction_k", operand.instruction_k()},
                 {"advance_k", along_k},
                 {"block_mn", block},
                 {"advance_mn", along_mn}});
    fmt::print("{}\n", json.dump(2));
    return 0;
  }
  fmt::print("{}: {} B in atoms of {}x{}, along {} first\n{:#018x}\n{}", operand.describe(), operand.bytes(),
             operand.atom_mn(), operand.atom_k(), name(order), d.encode(), d.explain(major));
  fmt::print("advance along k, each {} elements: {} B\n", operand.instruction_k(), fmt::join(along_k, ", "));
  fmt::print("advance along mn, each {} elements: {} B\n", block, fmt::join(along_mn, ", "));
  return 0;
}

Command add(const Arguments& ptxb) {
  const Arguments app =
      ptxb.command("desc", "make or explain wgmma's descriptor of a matrix in shared memory");
  auto words = std::make_shared<Words>();
  const Option bits =
      app.option("descriptor", words->bits, "the 64-bit number to explain, such as 0x4000004000010000");
  const Option tile = app.option("--tile", words->tile, "the matrix, MNxK elements, such as 128x64");
  bits.excludes(tile);
  app.option("--dtype", words->dtype, "f16, bf16, tf32, e4m3, e5m2, s8 or u8").with_default();
  const Option major =
      app.option("--major", words->major, "the contiguous dimension").among({"k", "mn"}).with_default();
  app.option("--swizzle", words->swizzle, "the swizzle in bytes")
      .among({"128", "64", "32", "none"})
      .with_default();
  app.option("--order", words->order,
             "the dimension along which the next swizzle atom follows; mn unless mn is contiguous")
      .among({"mn", "k"});
  app.option("--address", words->address, "the address of the matrix's first byte in shared memory")
      .with_default();
  app.flag("--json", words->json, "as JSON");
  return {app, [words, bits, tile, major] {
            if (bits.given()) return decode(*words, major.given());
            if (tile.given()) return make(*words);
            throw UsageError("desc: pass a descriptor to explain, or --tile with its type and layout");
          }};
}

const CommandRegistration registration(add);

}  // namespace ptxbuilder::command::desc_command
