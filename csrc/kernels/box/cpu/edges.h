// Rows of column sums that extend beyond the image. Text of core/cpu/each_isa.h: compiled once per instruction set.

// The elements of such a row that repeat elements of the image. They are found once for all rows, because the border's
// map takes longer than a small window's sums.
class RowEdges {
 public:
  // A row holds the columns first, first + 1, ...: `left` of them before `inside` columns of the image, `right` behind.
  // The image's columns are in memory from column `begin` on.
  void find(int64_t first, int64_t left, int64_t inside, int64_t right, int64_t begin, int64_t w, Border border,
            int64_t pixel) {
    edges_.clear();
    const auto add = [&](int64_t i) {
      const int64_t m = map_index(first + i, w, border);
      for (int64_t k = 0; k < pixel; ++k) edges_.push_back({i * pixel + k, m < 0 ? -1 : (m - begin) * pixel + k});
    };
    for (int64_t i = 0; i < left; ++i) add(i);
    for (int64_t i = left + inside; i < left + inside + right; ++i) add(i);
  }

  template <typename A>
  void extend(const A* image, A outside, A* row) const {
    for (const Edge& edge : edges_) row[edge.to] = edge.from < 0 ? outside : image[edge.from];
  }

 private:
  struct Edge {
    int64_t to, from;  // -1: outside
  };
  std::vector<Edge> edges_;
};
