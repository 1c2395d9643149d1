#include "kernels/c/packed.h"

#include <fmt/format.h>

#include "kernels/c/report.h"
#include "kernels/c/tensor.h"

namespace ptxbuilder::c {
namespace {

constexpr std::pair<ptxb_dtype, DType> kScales[] = {{{PTXB_FLOAT, 32, 1}, DType::f32},
                                                    {{PTXB_FLOAT, 16, 1}, DType::f16},
                                                    {{PTXB_BFLOAT, 16, 1}, DType::bf16}};

int64_t number_of(int32_t type, int32_t group, const ptxb_dtype& scales) {
  return type | int64_t{group} << 8 | int64_t{scales.code} << 16 | int64_t{scales.bits} << 24;
}

// Returns a description of the caller's arrays of weights, scales and zero points in host memory.
template <class Byte, class Memory>
kernels::PlainWeights<Byte> plain_weights(const kernels::PackedForm& form, int64_t n, int64_t k,
                                          Memory* weights, Memory* scales, Memory* zeros) {
  const auto bytes = [](const char* what, Memory* memory, int64_t count) {
    if (count > 0 && !memory) refuse_null(what);
    return std::span<Byte>(static_cast<Byte*>(memory), static_cast<size_t>(count));
  };
  const int64_t groups = n * packed_groups(form, k);
  return {bytes("weights", weights, n * k),
          bytes("scales", scales, form.has_scales() ? groups * size_of(form.scales) : 0),
          bytes("zeros", zeros, form.has_zeros() ? groups : 0)};
}

#define PTXBUILDER_WEIGHT(word, WORD, ...) \
  static_assert(static_cast<int>(kernels::WeightType::word) == PTXB_PACKED_##WORD);
#include "kernels/gemm/weight.def"

}  // namespace

kernels::PackedForm packed_form_of(int64_t number) {
  for (const auto& [dtype, scales] : kScales) {
    const auto type = static_cast<uint8_t>(number), group = static_cast<uint8_t>(number >> 8);
    const kernels::PackedForm form = {static_cast<kernels::WeightType>(type), group, scales};
    if (number == number_of(type, group, dtype) && refusal_of(form).empty()) return form;
  }
  throw Error(fmt::format("packed_form {:#x} is not one that ptxb_packed_form() returns", number));
}

}  // namespace ptxbuilder::c

using namespace ptxbuilder;
using namespace ptxbuilder::c;

int ptxb_packed_form(int32_t type, int32_t group, ptxb_dtype scales, int64_t* form) {
  return status_of([&] {
    int64_t& number = given(form, "form");
    kernels::PackedForm wanted = {
        static_cast<kernels::WeightType>(type < 0 || type > UINT8_MAX ? UINT8_MAX : type),
        static_cast<uint8_t>(group < 0 || group > UINT8_MAX ? UINT8_MAX : group), DType::u8};
    for (const auto& [dtype, is] : kScales)
      if (dtype.code == scales.code && dtype.bits == scales.bits && dtype.lanes == scales.lanes)
        wanted.scales = is;
    if (const std::string refusal = refusal_of(wanted); !refusal.empty()) throw Error(refusal);
    number = number_of(type, group, scales);
  });
}

int ptxb_packed_bytes(int64_t form, int64_t n, int64_t k, size_t* bytes) {
  return status_of([&] {
    given(bytes, "bytes") = static_cast<size_t>(kernels::packed_bytes(packed_form_of(form), n, k));
  });
}

int ptxb_pack(int64_t form, int64_t n, int64_t k, const void* weights, const void* scales, const void* zeros,
              void* packed) {
  return status_of([&] {
    const kernels::PackedForm of = packed_form_of(form);
    const auto bytes = static_cast<size_t>(kernels::packed_bytes(of, n, k));
    if (bytes > 0 && !packed) refuse_null("packed");
    pack_weights(of, n, k, plain_weights<const std::byte>(of, n, k, weights, scales, zeros),
                 {static_cast<std::byte*>(packed), bytes});
  });
}

int ptxb_unpack(int64_t form, int64_t n, int64_t k, const void* packed, void* weights, void* scales,
                void* zeros) {
  return status_of([&] {
    const kernels::PackedForm of = packed_form_of(form);
    const auto bytes = static_cast<size_t>(kernels::packed_bytes(of, n, k));
    if (bytes > 0 && !packed) refuse_null("packed");
    unpack_weights(of, n, k, {static_cast<const std::byte*>(packed), bytes},
                   plain_weights<std::byte>(of, n, k, weights, scales, zeros));
  });
}
