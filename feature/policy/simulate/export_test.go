package simulate

// SetBudgets has validating policies cost no more than a test says, by name.
func (s *Simulator) SetBudgets(budgets map[string]int64) { s.budgets = budgets }
