// Values in one thread of a CTA.
#pragma once

#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "ptxbuilder/analysis/values.h"

namespace ptxbuilder::analysis {

inline constexpr int kWarp = 32;

// What a sum is in one thread of a CTA of one dimension, where that follows from the thread's number.
class OfThread {
 public:
  OfThread(const Values& values, int64_t thread) : values_(values), thread_(thread) {}

  std::optional<int64_t> operator()(const Sum& sum) {
    int64_t total = sum.constant;
    for (const auto& [number, factor] : sum.terms) {
      const std::optional<int64_t> value = atom(number);
      if (!value) return std::nullopt;
      total += *value * factor;
    }
    return total;
  }

 private:
  std::optional<int64_t> atom(int number) {
    const auto [known, is_new] = atoms_.emplace(number, std::nullopt);  // in a circle: unknown
    if (!is_new) return known->second;
    return atoms_[number] = computed(values_.atom(number));
  }

  std::optional<int64_t> computed(const Atom& a) {
    if (a.kind == Atom::Kind::special) {
      if (a.name == "%tid.x") return thread_;
      if (a.name == "%tid.y" || a.name == "%tid.z") return 0;
      if (a.name == "%laneid") return thread_ % kWarp;
      return std::nullopt;
    }
    if (a.kind != Atom::Kind::function) return std::nullopt;
    std::vector<std::optional<int64_t>> x;
    for (const Sum& input : a.inputs) x.push_back((*this)(input));
    const std::vector<std::string_view> words = ptx::split_opcode(a.name);
    const std::string_view name = words[0];
    // One input that decides is enough.
    if (words.back() == "pred" && x.size() == 2) {
      if (name == "and" && ((x[0] && !*x[0]) || (x[1] && !*x[1]))) return 0;
      if (name == "or" && ((x[0] && *x[0]) || (x[1] && *x[1]))) return 1;
    }
    if (name == "selp" && x.size() == 3 && x[2]) return *x[2] ? x[0] : x[1];
    for (const auto& value : x)
      if (!value) return std::nullopt;
    const auto u = [&](size_t i) { return static_cast<uint64_t>(*x[i]) & 0xffffffff; };
    if (x.size() == 1) {
      if (name == "not") return words.back() == "pred" ? !*x[0] : ~*x[0];
      return std::nullopt;
    }
    if (name == "shfl") return x[0];  // lanes that agree
    if (x.size() != 2) return std::nullopt;
    if (name == "and") return *x[0] & *x[1];
    if (name == "or") return *x[0] | *x[1];
    if (name == "xor") return *x[0] ^ *x[1];
    if (name == "shr" && *x[1] >= 0 && *x[1] < 32) return static_cast<int64_t>(u(0) >> *x[1]);
    if (name == "div" && *x[1] > 0 && *x[0] >= 0) return *x[0] / *x[1];
    if (name == "rem" && *x[1] > 0 && *x[0] >= 0) return *x[0] % *x[1];
    if (name == "setp" && words.size() == 3) {
      const std::string_view compare = words[1];
      if (compare == "eq") return u(0) == u(1);
      if (compare == "ne") return u(0) != u(1);
      const bool is_signed = words[2].starts_with("s");
      const int64_t l = is_signed ? static_cast<int32_t>(*x[0]) : static_cast<int64_t>(u(0)),
                    r = is_signed ? static_cast<int32_t>(*x[1]) : static_cast<int64_t>(u(1));
      if (compare == "lt" || compare == "lo") return l < r;
      if (compare == "le" || compare == "ls") return l <= r;
      if (compare == "gt" || compare == "hi") return l > r;
      if (compare == "ge" || compare == "hs") return l >= r;
    }
    return std::nullopt;
  }

  const Values& values_;
  int64_t thread_;
  std::map<int, std::optional<int64_t>> atoms_;
};

}  // namespace ptxbuilder::analysis
