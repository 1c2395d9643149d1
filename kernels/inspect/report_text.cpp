// Writes a kernel's report as a page of text.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/inspect/report.h"

namespace ptxbuilder::command {
namespace {

using Json = nlohmann::ordered_json;

// Returns text such as "consumer, gemm.cpp:41". Parts that the JSON lacks are omitted.
std::string place(const Json& json) {
  std::string text = json.value("role", "");
  for (const std::string& part :
       {json.value("source", std::string()),
        json.contains("ptx_line") ? fmt::format("PTX line {}", json["ptx_line"].get<int>()) : std::string()})
    if (!part.empty()) text += (text.empty() ? "" : ", ") + part;
  return text;
}

// Returns a number with a unit prefix, such as "33.6 M".
std::string large(double value) {
  for (const auto& [scale, prefix] : {std::pair{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}})
    if (value >= scale) return fmt::format("{:.1f} {}", value / scale, prefix);
  return fmt::format("{:.0f} ", value);
}

std::string registers(const Json& r) {
  std::string text = "registers\n";
  if (!r["registers"].is_null())
    text += fmt::format("  {} per thread at the start of the kernel, {} B of spills, {} B of stack\n",
                        r["registers"].get<int>(), r["spill_bytes"].get<int>(), r["stack_bytes"].get<int>());
  for (const Json& e : r["estimate"])
    text += fmt::format("  about {}{} by the PTX alone{}: accumulators {}\n", e["registers"].get<int>(),
                        e["granted"].is_null() ? "" : fmt::format(" of {}", e["granted"].get<int>()),
                        place(e).empty() ? "" : fmt::format(" ({})", place(e)), e["accumulators"].get<int>());
  if (!r["peaks"].is_null())
    for (const Json& peak : r["peaks"]) {
      std::string uses;
      for (const auto& [what, count] : peak["uses"].items())
        uses += fmt::format("{}{} {}", uses.empty() ? "" : ", ", what, count.get<int>());
      text += fmt::format("  {}{} alive at most{}: {}\n", peak["live"].get<int>(),
                          peak["granted"].is_null() ? "" : fmt::format(" of {}", peak["granted"].get<int>()),
                          place(peak).empty() ? "" : fmt::format(" ({})", place(peak)), uses);
    }
  if (r.contains("spills"))
    for (const Json& s : r["spills"])
      text += fmt::format("  spill {:04x} {} ({})\n", s["address"].get<int>(),
                          s["instruction"].get<std::string>(), place(s));
  return text;
}

std::string complaints(const Json& r) {
  std::string text;
  for (const Json& n : r["notes"]) {
    if (n["severity"] == "info" && n["code"] == "") continue;
    text += fmt::format("  {}{}\n", n["text"].get<std::string>(),
                        n.contains("role") ? fmt::format(" ({})", n["role"].get<std::string>()) : "");
  }
  for (const Json& d : r["defects"]) text += fmt::format("  {}\n", d["text"].get<std::string>());
  if (r.contains("overwritten_operands")) {
    for (const Json& o : r["overwritten_operands"])
      text += fmt::format("  R{} of the wgmma at {:04x} is written at {:04x}, before the wait for it ({})\n",
                          o["register"].get<int>(), o["wgmma"]["address"].get<int>(),
                          o["writer"]["address"].get<int>(), place(o["writer"]));
    if (r["overwritten_operands"].empty() && !r["defects"].empty())
      text += "  the machine code writes no register that a wgmma reads before the wait for it\n";
  }
  return text.empty() ? "" : "messages and possible defects of ptxas\n" + text;
}

// Returns a bar with a character for each 64th of the SM's shared memory, and a letter for each object.
std::string shared_memory(const Json& s) {
  constexpr int kColumns = 64;
  const double most = s["most_bytes"];
  const int dynamic = s["dynamic_bytes"], fixed = s["static_bytes"];
  std::string text = fmt::format("shared memory: {} B of {}, {} of them dynamic\n", dynamic + fixed,
                                 static_cast<int>(most), dynamic);
  std::string bar(kColumns, '.');
  auto fill = [&](double from, double to, char sign) {
    const int last = std::min(kColumns - 1, static_cast<int>(to / most * kColumns - 1e-9));
    for (int c = static_cast<int>(from / most * kColumns); c <= last; ++c) bar[static_cast<size_t>(c)] = sign;
  };
  if (dynamic > 0) fill(0, dynamic, '-');
  char sign = 'A';
  std::string rows;
  for (const Json& o : s["objects"]) {
    const int offset = o["offset"], bytes = o["bytes"], stages = o["stages"];
    fill(offset, offset + bytes * stages, sign);
    rows +=
        fmt::format("  {} {:7} {:8} B{}  {}\n", sign, offset, bytes * stages,
                    stages > 1 ? fmt::format(" = {} x {}", stages, bytes) : "", o["name"].get<std::string>());
    sign = sign == 'Z' ? 'a' : sign == 'z' ? 'A' : static_cast<char>(sign + 1);
  }
  return text + fmt::format("  |{}|\n", bar) + rows;
}

std::string occupancy(const Json& o) {
  std::string limits;
  for (const auto& [what, ctas] : o["limits"].items())
    limits += fmt::format("{}{} {}", limits.empty() ? "" : ", ", what, ctas.get<int>());
  std::string text =
      fmt::format("occupancy: {} CTAs per SM, limited by its {} ({}); {} warps\n", o["ctas"].get<int>(),
                  o["bound"].get<std::string>(), limits, o["warps"].get<int>());
  if (o["cluster"] > 1)
    text += fmt::format("  clusters of {}: {} at once on an H100\n", o["cluster"].get<int>(),
                        o["clusters_at_once"].get<int>());
  return text;
}

std::string loops(const Json& r) {
  std::string text;
  for (const Json& l : r["loops"]) {
    text += fmt::format("  {} from {} (PTX lines {} to {}), {} stage{} a turn:", l["role"].get<std::string>(),
                        l["source"].get<std::string>(), l["first_line"].get<int>(), l["last_line"].get<int>(),
                        l["stages"].get<int>(), l["stages"] == 1 ? "" : "s");
    std::string work;
    auto add = [&](const char* name, const char* unit) {
      if (l[name].get<double>() > 0)
        work += fmt::format("{} {}{}", work.empty() ? "" : ",", large(l[name].get<double>()), unit);
    };
    add("flops", "flop");
    add("read_bytes", "B read by wgmma");
    add("arriving_bytes", "B arrive");
    add("special", "results of the special function unit");
    text += work + "\n";
  }
  if (text.empty()) return "";
  text = "one iteration of the loops, all warps of the role\n" + text;
  if (r["stage_clocks"].empty()) return text;
  std::string clocks;
  for (const auto& [unit, count] : r["stage_clocks"].items())
    if (count > 0)
      clocks += fmt::format("{}{} {:.0f}", clocks.empty() ? "" : ", ", unit, count.get<double>());
  return text + fmt::format("  least clocks of a stage: {}\n  the bound of a stage: {}\n", clocks,
                            r["stage_clocks"].begin().key());
}

std::string times(const Json& r) {
  std::string text;
  if (r.contains("launch")) {
    const Json& l = r["launch"];
    text += fmt::format(
        "a launch: {}flop, {}B\n  at least {:.2f} us by the {} at the full clock, {:.2f} us by memory: bound "
        "by {}\n",
        large(l["flops"]), large(l["bytes"]), l["unit_us"].get<double>(), l["unit"].get<std::string>(),
        l["memory_us"].get<double>(), l["bound"].get<std::string>());
  }
  if (r.contains("forecast")) {
    const Json& f = r["forecast"];
    std::string parts;
    for (const auto& [what, us] : f["parts"].items())
      parts += fmt::format("{}{} {:.2f}", parts.empty() ? "" : ", ", what, us.get<double>());
    text += fmt::format("  forecast {:.2f} us ({}) at {:.0f} MHz, {:.0f} W wanted: bound by {}\n",
                        f["us"].get<double>(), parts, f["mhz"].get<double>(), f["watts"].get<double>(),
                        f["bound"].get<std::string>());
  }
  if (r.contains("measured")) {
    const Json& m = r["measured"];
    text += fmt::format("  measured {:.2f} us{}", m["us"].get<double>(),
                        m.contains("device") ? fmt::format(" on {}", m["device"].get<std::string>()) : "");
    if (m.contains("tflops"))
      text += fmt::format(": {:.1f} TFLOP/s, {:.1f} GB/s; {:.1f} % of what the bound allows",
                          m["tflops"].get<double>(), m["gbytes_per_s"].get<double>(),
                          100 * m["of_the_floor"].get<double>());
    if (m.contains("of_the_forecast"))
      text += fmt::format("; forecast / measured {:.3f}", m["of_the_forecast"].get<double>());
    text += "\n";
  }
  return text;
}

}  // namespace

std::string report_text(const std::string& json) {
  const Json r = Json::parse(json);
  std::string fields;
  for (const auto& [name, value] : r["fields"].items())
    fields += fmt::format(" {}={}", name, value.is_string() ? value.get<std::string>() : value.dump());
  std::string text =
      fmt::format("{}{}\n{}, {} threads, assembler: {}\n", r["kernel"].get<std::string>(), fields,
                  r["target"].get<std::string>(), r["threads"].get<int>(), r["assembler"].get<std::string>());
  text += registers(r) + complaints(r) + shared_memory(r["shared"]);
  if (r.contains("occupancy")) text += occupancy(r["occupancy"]);
  text += loops(r) + times(r);
  for (const Json& missing : r["missing"]) text += fmt::format("missing: {}\n", missing.get<std::string>());
  return text;
}

}  // namespace ptxbuilder::command
