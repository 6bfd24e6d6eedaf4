@7120
Feature: Every change is in the changeset it belongs to
  In the reference system the nodes of one execution shared a list of changesets: a change went to
  whatever was last in it, and between looking and taking the list could have changed.

  Here a context keeps no list. A change goes through the handle of its changeset; without one, the
  changeset is resolved and written to in one atomic step, and what is ambiguous is refused.

  Scenario Outline: Threads that share a context record each into their own changeset (<store>)
    Given a <store> store
    And a worker who executes a plan
    When 16 threads that share its context each start a changeset for their node and record 20 changes by node
    Then every change is in the changeset of its node, once
    And no thread was refused

    Examples:
      | store    |
      | memory   |
      | sqlite   |
      | postgres |

  Scenario Outline: What is recorded through a handle stays with it, whatever others start (<store>)
    Given a <store> store
    And a worker who executes a plan
    When 16 threads that share its context each start a changeset for their node and record 20 changes by handle
    Then every change is in the changeset of its node, once
    And no thread was refused

    Examples:
      | store    |
      | memory   |
      | sqlite   |
      | postgres |

  Scenario Outline: A change is never guessed into a changeset while others come and go (<store>)
    Given a <store> store
    And a worker who executes a plan
    And its changeset for node base is open
    When 8 threads record 20 changes each without a node while another starts and seals changesets
    Then every change that was taken is in the changeset that was answered
    And every other was refused as ambiguous
    And no changeset of the other holds a change

    Examples:
      | store    |
      | memory   |
      | sqlite   |
      | postgres |

  Scenario Outline: Of 16 threads that start a changeset for the same node one wins (<store>)
    Given a <store> store
    And a worker who executes a plan
    When 16 threads start a changeset for the same node
    Then one of them gets it
    And the 15 others are told which one is open

    Examples:
      | store    |
      | memory   |
      | sqlite   |
      | postgres |

  Scenario Outline: Processes record each into their own changeset (<store>)
    Given a <store> store
    And a worker who executes a plan
    When 8 processes each open a changeset for their node and record 4 changes, all at once
    Then every change is in the changeset of its node, once
    And no process was refused

    Examples:
      | store    |
      | sqlite   |
      | postgres |

  Scenario Outline: A process that does not say which of two open changesets it means is refused (<store>)
    Given a <store> store
    And a worker who executes a plan
    And its changeset for node left is open
    And its changeset for node right is open
    When a process records a change without a node
    Then it ends with exit code 4
    And it says "2 changesets are open"
    And it says "--node left"
    And it says "--node right"
    And everything is as it was
    When a process records a change for node right
    Then it succeeds
    And the changeset of node right holds 1 change
    And the changeset of node left holds 0 changes

    Examples:
      | store    |
      | sqlite   |
      | postgres |

  Scenario Outline: Recording with no changeset open is a clear error (<store>)
    Given a <store> store
    And a worker who executes a plan
    When the worker records a change without a node
    Then it is refused, because no changeset is open
    And everything is as it was

    Examples:
      | store    |
      | memory   |
      | sqlite   |
      | postgres |

  Scenario Outline: A process that records with no changeset open is told how to open one (<store>)
    Given a <store> store
    And a worker who executes a plan
    When a process records a change without a node
    Then it ends with exit code 4
    And it says "No changeset is open"
    And it says "open-changeset"
    And everything is as it was

    Examples:
      | store    |
      | sqlite   |
      | postgres |

  Scenario Outline: A changeset that was sealed takes nothing more (<store>)
    Given a <store> store
    And a worker who executes a plan
    And its changeset for node base is open
    When the changeset for node base is sealed
    And everything is looked at
    And the worker records a change through its old handle
    Then it is refused, because that changeset is not open
    And everything is as it was

    Examples:
      | store    |
      | memory   |
      | sqlite   |
      | postgres |

  Scenario Outline: Whose lease was taken records nothing any more (<store>)
    Given a <store> store
    And a worker who executes a plan
    And its changeset for node base is open
    When its lease expires, is reclaimed, and another worker starts
    And everything is looked at
    And the worker records a change through its old handle
    Then it is refused, because its authority is over
    When the worker records a change without a node
    Then it is refused, because its authority is over
    When the worker starts a changeset
    Then it is refused, because its authority is over
    And everything is as it was

    Examples:
      | store    |
      | memory   |
      | sqlite   |
      | postgres |

  Scenario Outline: A process whose lease was taken records nothing any more (<store>)
    Given a <store> store
    And a worker who executes a plan
    And its changeset for node base is open
    When its lease expires, is reclaimed, and another worker starts
    And everything is looked at
    And a process records a change for node base with the old epoch
    Then it ends with exit code 4
    And it says "is over: the plan is at epoch"
    And everything is as it was
    And the changeset of node base is sealed

    Examples:
      | store    |
      | sqlite   |
      | postgres |
