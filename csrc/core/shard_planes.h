// The planes of a volume, for kernels that stream along z and read neighbour shards in place. Each shard has its own
// tensor map; the number of a plane tells the shard:
//
//   plane        -above.rows ...... -1 | 0 ........... d - 1 | d ....... d + below.rows - 1
//   map           above                | the shard's         | below
//   its plane z   0 ..................   0 .................   0 .....................
//
// A volume that is no shard is a TensorMap, a shard is a ShardVolume. Chains over images read rows by the same
// functions.
#pragma once

#include "core/neighbours.h"
#include "core/tma.h"

namespace torch_conv {

// The tensor maps of a shard and its neighbours. Without bulk copies the maps are empty.
struct ShardVolume {
  static constexpr int kAbove = 0, kOwn = 1, kBelow = 2;
  TensorMap maps[3];  // in place of a missing neighbour's map, which no kernel uses: the shard's own
  Neighbours peers;

  // map_of(volume) makes a map.
  template <typename MapOf>
  static ShardVolume of(const Image& shard, const Peers& peers, const MapOf& map_of) {
    return of(shard, peers, map_of, Neighbours::of_planes(peers, shard));
  }
  template <typename MapOf>
  static ShardVolume of_rows(const Image& shard, const Peers& peers, const MapOf& map_of) {
    return of(shard, peers, map_of, Neighbours::of(peers, shard));
  }

 private:
  template <typename MapOf>
  static ShardVolume of(const Image& shard, const Peers& peers, const MapOf& map_of, const Neighbours& neighbours) {
    const TensorMap map = map_of(shard);
    return {{peers.above.data ? map_of(peers.above) : map, map, peers.below.data ? map_of(peers.below) : map},
            neighbours};
  }
};

// A shard holds planes [first_plane, end_of_planes), of a volume (or a shard) of d planes.
TC_HD int first_plane(const TensorMap&) { return 0; }
TC_HD int first_plane(const ShardVolume& v) { return -int(v.peers.above.rows); }
TC_HD int end_of_planes(const TensorMap&, int d) { return d; }
TC_HD int end_of_planes(const ShardVolume& v, int d) { return d + int(v.peers.below.rows); }

// Whether a shard holds each of the planes z - r to z + r.
TC_HD bool planes_around(const TensorMap&, int z, int r, int d) { return z >= r && z + r < d; }
TC_HD bool planes_around(const ShardVolume& v, int z, int r, int d) {
  return z >= r + first_plane(v) && z + r < end_of_planes(v, d);
}

// The plane that plane z of the extended volume stands for; less than kLeastPlane for none.
TC_HD int map_plane(const TensorMap&, int z, int d, Border border) { return map_index(z, d, border); }
// Neighbours::map_row with 32-bit comparisons: with 64-bit comparisons, chains of 9x9 windows spill 8 bytes.
TC_HD int map_plane(const ShardVolume& v, int z, int d, Border border) {
  if (z >= first_plane(v) && z < end_of_planes(v, d)) return z;
  const int mapped = map_index(z, d, border);
  return mapped < 0 ? Neighbours::kOutside : mapped;
}
template <typename Map>
constexpr int kLeastPlane = 0;
template <>
constexpr int kLeastPlane<ShardVolume> = Neighbours::kOutside + 1;

// The address of plane z of channel c of sample n, whose volume in this shard is `volume`.
template <typename T>
TC_HD const T* plane_in_memory(const TensorMap&, const T* volume, int64_t stride_d, int z, int, int, int) {
  return volume + z * stride_d;
}
template <typename T>
TC_HD const T* plane_in_memory(const ShardVolume& v, const T* volume, int64_t stride_d, int z, int d, int n, int c) {
  return v.peers.row(volume, stride_d, z, d, n, c);
}

// The shard of plane z, and the plane's number there. A plane of no shard is outside the shard's map, from which bulk
// copies read zeros.
struct PlaneOfShard {
  int shard, z;
};
TC_HD PlaneOfShard plane_of_shard(const TensorMap&, int z, int) { return {ShardVolume::kOwn, z}; }
TC_HD PlaneOfShard plane_of_shard(const ShardVolume& v, int z, int d) {
  const bool above = z < 0 && z >= first_plane(v), below = z >= d && z < end_of_planes(v, d);
  const int shard = above ? ShardVolume::kAbove : below ? ShardVolume::kBelow : ShardVolume::kOwn;
  return {shard, above ? z - first_plane(v) : below ? z - d : z};
}
TC_HD const TensorMap* map_of_shard(const TensorMap& map, int) { return &map; }
TC_HD const TensorMap* map_of_shard(const ShardVolume& v, int shard) { return v.maps + shard; }

}  // namespace torch_conv
