#define BYTES 0
#include "separable_mma.h"
