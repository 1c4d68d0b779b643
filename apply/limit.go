package apply

import (
	"fmt"
	"strconv"
	"strings"
)

// fewDeletes is how many objects a prune may delete whatever share of the app they are, if nothing else is said.
const fewDeletes = 10

// MostDeletes reads how many objects a prune may delete of an app that has a number of objects: a number, or a share such as "30%". Empty
// stands for half of them, or 10 if that is more.
func MostDeletes(text string, recorded int) (int, error) {
	if text == "" {
		return max(fewDeletes, recorded/2), nil
	}
	number, share := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || share && n > 100 {
		return 0, fmt.Errorf("%q: it is a number, or a share from 0%% to 100%%", text)
	}
	if share {
		return recorded * n / 100, nil
	}
	return n, nil
}
