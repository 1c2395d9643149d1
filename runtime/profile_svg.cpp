#include "runtime/profile_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ptxbuilder::runtime {
namespace {

constexpr int kWidth = 960, kMargin = 16, kRow = 20, kLane = 26, kBarAt = 300, kBar = 220, kLineAt = 150;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '&'   ? "&amp;"
           : c == '<' ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '"' ? "&quot;"
                      : std::string(1, c);
  return out;
}

std::string duration(double nanoseconds) {
  return nanoseconds < 1e4 ? fmt::format("{:.0f} ns", nanoseconds)
                           : fmt::format("{:.1f} us", nanoseconds * 1e-3);
}

// Returns a colour. Regions with the same name have the same colour.
const char* colour(size_t name) {
  constexpr std::array<const char*, 8> kColours = {"#4e79a7", "#f28e2b", "#59a14f", "#e15759",
                                                   "#b07aa1", "#76b7b2", "#edc948", "#9c755f"};
  return kColours[name % kColours.size()];
}

class Svg {
 public:
  explicit Svg(const Profile& profile) : profile_(profile) {}

  std::string text() {
    line(kMargin,
         fmt::format("{}: {} in {} warps, {} events of {:.1f} ns each, which are left out", profile_.kernel,
                     duration(profile_.time), profile_.tracks.size(), profile_.recorded, profile_.event_cost),
         "font-weight=\"bold\"");
    y_ += 6;
    table();
    y_ += 10;
    lanes();
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
        "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"{0}\" height=\"{1}\" "
        "fill=\"white\"/>\n{2}</svg>\n",
        kWidth, y_ + kMargin, body_);
  }

 private:
  void put(int x, int y, const std::string& text, const std::string& style = {}) {
    body_ += fmt::format("<text x=\"{}\" y=\"{}\"{}{}>{}</text>\n", x, y, style.empty() ? "" : " ", style,
                         escaped(text));
  }
  void line(int x, const std::string& text, const std::string& style = {}) {
    put(x, y_ += kRow, text, style);
  }

  void table() {
    y_ += kRow;
    for (const auto& [x, head] :
         {std::pair(kMargin, "role, region"), std::pair(kBarAt, "share"),
          std::pair(kBarAt + kBar + 60, "count"), std::pair(kBarAt + kBar + 140, "total"),
          std::pair(kBarAt + kBar + 230, "p50"), std::pair(kBarAt + kBar + 310, "p95")})
      put(x, y_, head, "fill=\"#555\"");
    for (const Profile::Row& row : profile_.rows()) {
      y_ += kRow;
      const bool is_role = row.region.empty();
      put(kMargin + (is_role ? 0 : 16), y_, is_role ? row.role : row.region,
          is_role ? "font-weight=\"bold\"" : "");
      body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"12\" fill=\"{}\"/>\n", kBarAt,
                           y_ - 10, kBar * std::min(1.0, row.share),
                           is_role ? "#cccccc" : colour(name_of(row.region)));
      put(kBarAt + kBar + 8, y_, fmt::format("{:.1f}%", 100 * row.share));
      put(kBarAt + kBar + 60, y_, fmt::format("{}", row.count));
      put(kBarAt + kBar + 140, y_, duration(row.total));
      put(kBarAt + kBar + 230, y_, duration(row.p50));
      put(kBarAt + kBar + 310, y_, duration(row.p95));
    }
  }

  // Returns the number of the innermost name in a path of regions.
  size_t name_of(const std::string& region) const {
    const std::string last = region.substr(region.rfind('/') + 1);
    return static_cast<size_t>(std::find(profile_.names.begin(), profile_.names.end(), last) -
                               profile_.names.begin());
  }

  void lanes() {
    if (profile_.tracks.empty()) return;
    const auto first = std::min_element(profile_.tracks.begin(), profile_.tracks.end(),
                                        [](const auto& a, const auto& b) { return a.begin < b.begin; });
    double end = first->begin;
    for (const Profile::Track& track : profile_.tracks)
      if (track.cta == first->cta) end = std::max(end, track.end);
    const double scale = (kWidth - kLineAt - kMargin) / std::max(1.0, end - first->begin);
    line(kMargin, fmt::format("CTA {} over {}", first->cta, duration(end - first->begin)), "fill=\"#555\"");
    for (const Profile::Track& track : profile_.tracks) {
      if (track.cta != first->cta || track.warp % 4 != 0) continue;
      y_ += kLane;
      put(kMargin, y_,
          fmt::format("warp {} {}", track.warp,
                      track.role < 0 ? "" : profile_.roles[static_cast<size_t>(track.role)]));
      const auto box = [&](double begin, double finish, int inset, const char* fill,
                           const std::string& title) {
        body_ += fmt::format(
            "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" "
            "fill=\"{}\"><title>{}</title></rect>\n",
            kLineAt + (begin - first->begin) * scale, y_ - 14 + inset,
            std::max(0.3, (finish - begin) * scale), 18 - 2 * inset, fill, escaped(title));
      };
      box(track.begin, track.end, 0, "#eeeeee", fmt::format("warp {}", track.warp));
      for (const Profile::Region& region : track.regions) {
        const std::string& name = profile_.names[region.name];
        if (track.role >= 0 && region.depth == 0 && name == profile_.roles[static_cast<size_t>(track.role)])
          continue;
        box(region.begin, region.end, std::min(2 * region.depth, 6), colour(region.name),
            fmt::format("{}: {}", name, duration(region.net)));
      }
    }
  }

  const Profile& profile_;
  std::string body_;
  int y_ = 0;
};

}  // namespace

std::string profile_svg(const Profile& profile) { return Svg(profile).text(); }

}  // namespace ptxbuilder::runtime
