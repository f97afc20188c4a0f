// The fused kernel family's loops. Text of core/cpu/each_isa.h: compiled once per instruction set.
//
//     row of the image           --row pass--> ring of sums --column pass, point--> a few rows of stage 0's outputs
//     row of stage 0's outputs   --row pass--> ring of sums --column pass, point--> a few rows of stage 1's outputs
//     ...                                                                           rows of the last stage: written
//
// Only the image is read and only the last stage's rows are written; intermediates are a few rows in the cache. Each
// stage requests the rows under its windows from the previous stage, the first from the image. A strip starts with
// empty rings, so strips are independent, and the rows between two strips are made twice.
//
// These loops serve any 1 to 3 stages of any windows and pointwise steps. A new pointwise step is a case in point.h.

#include "kernels/fused/cpu/across.h"
#include "kernels/fused/cpu/point.h"
#include "kernels/fused/cpu/stage.h"

template <typename A>
class FusedRows {
 public:
  FusedRows(const Fused& p, int64_t pixel, int64_t tile_w)
      : p_(p),
        tile_w_(tile_w),
        channels_(pixel > 1 ? 1 : p.in.c),
        stages_(stages_of(p, pixel)),
        step_(stages_[0].place().stride_x),
        place_(stages_[0].place()),
        in_(p.in, pixel, place_, p.stages[0].kw) {
    place_.stride_x = 1;  // the stage selects columns of whole rows
    const int outputs = p.stages[p.count - 1].outputs();
    images_.assign(outputs, p.out);
    out_.reserve(outputs);
    for (int o = 0; o < outputs; ++o) {
      images_[o].data = static_cast<char*>(p.out.data) + o * p.stride_output * size_of(p.out.dtype);
      out_.emplace_back(images_[o], pixel);
    }
  }

  void strip(const RowStrip& strip) {
    const int64_t n = strip.plane / channels_, c = strip.plane % channels_;
    for (FusedStage<A>& stage : stages_) stage.choose_taps(n, c);
    plane_ = in_.plane(n, c, 0, 0);
    const int last = p_.count - 1, batch = stages_[last].batch();
    for (int64_t x = 0; x < p_.out.w; x += tile_w_) {
      Range columns{x, std::min(p_.out.w, x + tile_w_)};
      for (OutputRows<A>& out : out_) out.open(n, 0, columns);
      for (int s = last; s > 0; --s) columns = stages_[s].open(columns, false);
      stages_[0].open(columns, true);
      in_.open({columns.begin * step_, (columns.end - 1) * step_ + 1}, 1, stages_[0].row_slots());
      for (int64_t y = strip.range.begin; y < strip.range.end; y += batch) {
        const int rows = int(std::min<int64_t>(batch, strip.range.end - y));
        A* to[Stage::kMost][kMaxTileRows];
        for (size_t o = 0; o < out_.size(); ++o)
          for (int r = 0; r < rows; ++r) to[o][r] = out_[o].row(r, c, y + r);
        make(last, y, rows, to);
        for (size_t o = 0; o < out_.size(); ++o)
          for (int r = 0; r < rows; ++r) out_[o].done(to[o][r], c, y + r);
      }
    }
  }

 private:
  static std::vector<FusedStage<A>> stages_of(const Fused& p, int64_t pixel) {
    std::vector<FusedStage<A>> stages;
    stages.reserve(p.count);
    int channels = 1;
    int64_t h = p.in.h, w = p.in.w;
    for (int s = 0; s < p.count; ++s) {
      const FusedStage<A>& stage = stages.emplace_back(p, s, channels, h, w, pixel);
      channels = p.stages[s].outputs(), h = stage.made_h(), w = stage.made_w();
    }
    return stages;
  }

  // Rows y .. y + rows - 1 of the output of stage s.
  void make(int s, int64_t y, int rows, A* const (*out)[kMaxTileRows]) {
    FusedStage<A>& stage = stages_[s];
    int64_t next = stage.next({y, y + rows});
    while (next < stage.end()) {
      if (s == 0) {
        stage.take_image(in_.row(plane_, next, stage.row_slots() > 1 ? stage.slot(next) : 0));
        ++next;
        continue;
      }
      const int count = int(std::min<int64_t>(stages_[s - 1].batch(), stage.end() - next));
      A* lines[Stage::kMost][kMaxTileRows];
      for (int c = 0; c < stage.channels(); ++c)
        for (int r = 0; r < count; ++r) lines[c][r] = stage.line(c, next + r, r);
      make(s - 1, next, count, lines);
      for (int r = 0; r < count; ++r) stage.take_made(r);
      next += count;
    }
    stage.make(y, rows, out);
  }

  const Fused& p_;
  const int64_t tile_w_, channels_;
  std::vector<FusedStage<A>> stages_;
  const int64_t step_;  // of the stage that reads the image
  Placement place_;     // of the image's rows
  InputRows<A> in_;
  typename InputRows<A>::Plane plane_{};
  std::vector<Image> images_;  // of each output
  std::vector<OutputRows<A>> out_;
};

template <typename A>
void fused_units(const Fused& p, const Plan& plan, Range units) {
  FusedRows<A> rows(p, fused::pixel_of_row(p), plan.tile_w);
  for_each_strip(units, p.out.h, plan.tile_h, [&](const RowStrip& strip) { rows.strip(strip); });
}
