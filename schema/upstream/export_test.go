package upstream

// NewExact is New for a validator that asks the API server's code for everything.
func NewExact(props *props, o Options) (*Validator, error) {
	v, err := New(props, o)
	if v != nil {
		v = v.Exact()
	}
	return v, err
}
