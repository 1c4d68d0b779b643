package upstream

// NewSlow is New for a validator that asks the API server's code for everything.
func NewSlow(props *props, o Options) (*Validator, error) {
	v, err := New(props, o)
	if v != nil {
		v.slow = true
	}
	return v, err
}
