#include "kernels/simulate/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>

#include "ptxbuilder/error.h"

namespace ptxbuilder::command {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr uint32_t kMostHeader = 65536;

// Returns the value of a key in the header. The header is a Python literal such as {'descr': '<f4', 'shape':
// (3, 4), ...}.
std::string value_of(const std::string& header, std::string_view key) {
  const size_t at = header.find(fmt::format("'{}':", key));
  if (at == std::string::npos) return {};
  size_t from = at + key.size() + 3;
  while (from < header.size() && header[from] == ' ') ++from;
  const bool is_tuple = header[from] == '(';
  const size_t to = is_tuple ? header.find(')', from) : header.find_first_of(",}", from);
  return to == std::string::npos ? std::string() : header.substr(from, to - from);
}

}  // namespace

NpyHeader npy_header(const std::filesystem::path& path) {
  auto refuse = [&](const std::string& what) { throw Error(fmt::format("{}: {}", path.string(), what)); };
  std::ifstream in(path, std::ios::binary);
  unsigned char start[12] = {};
  in.read(reinterpret_cast<char*>(start), 10);
  if (!in || !std::equal(magic.begin(), magic.end(), reinterpret_cast<const char*>(start)))
    refuse("it is not a .npy file: it does not begin like one");
  uint32_t size = start[8] | start[9] << 8, before = 10;
  if (start[6] > 1) {
    in.read(reinterpret_cast<char*>(start) + 10, 2);
    size |= static_cast<uint32_t>(start[10]) << 16 | static_cast<uint32_t>(start[11]) << 24;
    before = 12;
  }
  if (size > kMostHeader)
    refuse(fmt::format("its header has {} bytes, but may have at most {}", size, kMostHeader));
  std::string text(size, ' ');
  in.read(text.data(), size);
  if (!in) refuse("it ends within its header");
  NpyHeader h;
  h.bytes = before + size;
  h.type = value_of(text, "descr");
  std::erase(h.type, '\'');
  if (value_of(text, "fortran_order") != "False")
    refuse("its elements are in Fortran order; numpy.ascontiguousarray converts them to C order");
  std::string shape = value_of(text, "shape");
  if (shape.empty()) refuse("its header has no shape");
  for (size_t at = 0; (at = shape.find_first_of("0123456789", at)) != std::string::npos;) {
    const size_t end = std::min(shape.find_first_not_of("0123456789", at), shape.size());
    if (end - at > 18) refuse("an extent of its shape is too large");
    h.shape.push_back(std::stoull(shape.substr(at, end - at)));
    at = end;
  }
  std::reverse(h.shape.begin(), h.shape.end());
  return h;
}

std::string npy_type(DType type) {
  const int64_t size = size_of(type);
  const bool is_numpys = is_integer(type) || type == DType::f16 || type == DType::f32 || type == DType::f64;
  const char kind = !is_numpys || (is_integer(type) && !is_signed(type)) ? 'u' : is_integer(type) ? 'i' : 'f';
  return fmt::format("{}{}{}", size == 1 ? '|' : '<', kind, size);
}

bool npy_holds(const std::string& type, DType of) {
  return type == npy_type(of) || (type.size() > 2 && type.substr(1) == fmt::format("V{}", size_of(of)));
}

std::string npy_header_text(DType type, const std::vector<uint64_t>& shape) {
  const std::vector<uint64_t> outermost_first(shape.rbegin(), shape.rend());
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({},), }}",
                                 npy_type(type), fmt::join(outermost_first, ", "));
  // Pads the header so that the elements begin at a multiple of 64 bytes, directly after a newline.
  text.resize((10 + text.size() + 1 + 63) / 64 * 64 - 11, ' ');
  text += '\n';
  return fmt::format("{}\x01{}{}{}{}", magic, '\0', static_cast<char>(text.size() & 255),
                     static_cast<char>(text.size() >> 8), text);
}

}  // namespace ptxbuilder::command
