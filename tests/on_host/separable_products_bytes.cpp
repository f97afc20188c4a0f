#define BYTES 1
#include "separable_products.h"
