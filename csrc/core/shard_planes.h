// The planes of a volume as streams along z read them, and the rows of an image as chains do: of one that is alone, by
// its tensor map; of a shard of one that is cut along z, also those of the neighbour shards, where they lie. Each shard
// has a map of its own, and a plane's number says which:
//
//   plane        -above.rows ...... -1 | 0 ........... d - 1 | d ....... d + below.rows - 1
//   map           above                | own                 | below
//   its plane z   0 ..................   0 .................   0 .....................
//
// Of an image that is cut along h the rows are these planes.
#pragma once

#include "core/neighbours.h"
#include "core/tma.h"

namespace torch_conv {

// What kernels take in place of the one map of a volume that is alone. Without bulk copies both hold no maps.
struct ShardVolume {
  static constexpr int kAbove = 0, kOwn = 1, kBelow = 2;
  TensorMap maps[3];  // a shard that is not there has any map, which no plane is read by
  Neighbours peers;

  // map_of(volume) makes a map.
  template <typename MapOf>
  static ShardVolume of(const Image& own, const Peers& peers, const MapOf& map_of) {
    return of(own, peers, map_of, Neighbours::of_planes(peers, own));
  }
  template <typename MapOf>
  static ShardVolume of_rows(const Image& own, const Peers& peers, const MapOf& map_of) {
    return of(own, peers, map_of, Neighbours::of(peers, own));
  }

 private:
  template <typename MapOf>
  static ShardVolume of(const Image& own, const Peers& peers, const MapOf& map_of, const Neighbours& neighbours) {
    const TensorMap map = map_of(own);
    return {{peers.above.data ? map_of(peers.above) : map, map, peers.below.data ? map_of(peers.below) : map},
            neighbours};
  }
};

// Planes [first_plane, end_of_planes) stand somewhere, of a volume (or a shard) of d.
TC_HD int first_plane(const TensorMap&) { return 0; }
TC_HD int first_plane(const ShardVolume& v) { return -int(v.peers.above.rows); }
TC_HD int end_of_planes(const TensorMap&, int d) { return d; }
TC_HD int end_of_planes(const ShardVolume& v, int d) { return d + int(v.peers.below.rows); }

// Do plane z and those up to r before and behind it stand?
TC_HD bool planes_around(const TensorMap&, int z, int r, int d) { return z >= r && z + r < d; }
TC_HD bool planes_around(const ShardVolume& v, int z, int r, int d) {
  return z >= r + first_plane(v) && z + r < end_of_planes(v, d);
}

// Where plane z of the extended volume is read: less than kLeastPlane says that it stands nowhere.
TC_HD int map_plane(const TensorMap&, int z, int d, Border border) { return map_index(z, d, border); }
// The same as Neighbours::map_row by 32-bit comparisons: by its 64-bit ones chains of 9x9 windows spill 8 bytes.
TC_HD int map_plane(const ShardVolume& v, int z, int d, Border border) {
  if (z >= first_plane(v) && z < end_of_planes(v, d)) return z;
  const int mapped = map_index(z, d, border);
  return mapped < 0 ? Neighbours::kOutside : mapped;
}
template <typename Map>
constexpr int kLeastPlane = 0;
template <>
constexpr int kLeastPlane<ShardVolume> = Neighbours::kOutside + 1;

// The address of such a plane of channel c of sample n, which is `volume` in the shard at hand.
template <typename T>
TC_HD const T* plane_in_memory(const TensorMap&, const T* volume, int64_t stride_d, int z, int, int, int) {
  return volume + z * stride_d;
}
template <typename T>
TC_HD const T* plane_in_memory(const ShardVolume& v, const T* volume, int64_t stride_d, int z, int d, int n, int c) {
  return v.peers.row(volume, stride_d, z, d, n, c);
}

// Which shard has plane z, and the plane's number there. What no shard has lies outside the shard's own map, too: there
// a bulk copy brings zeros.
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
